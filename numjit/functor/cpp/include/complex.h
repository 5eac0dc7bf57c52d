// std::complex for functors, the same on device and host. It differs from the standard's on purpose: a
// real operand of any arithmetic type keeps the precision of the complex one (`2.0 * x` is complex<float>
// for such an x, as torch has it), and multiplication and division do not go through a library call.
// Found by argument-dependent lookup, so the namespace holds the standard's names only.
//
// Division is Smith's (1962); the functions follow in complex_values.h.
#ifdef __CUDACC_RTC__
#define NUMJIT_INLINE __forceinline__
#else
#define NUMJIT_INLINE inline
#endif

namespace numjit_complex {

template <class R>
class complex;

namespace detail {
#ifdef __CUDACC_RTC__
namespace std { using ::atan2; using ::copysign; using ::cos; using ::fabs; using ::hypot; using ::sin; }
#else
namespace std = ::std;
#endif

template <class S>
constexpr bool is_real = ::numjit_standard::is_arithmetic_v<S>;
template <class S, class R>
using if_real = ::numjit_standard::enable_if_t<is_real<S>, R>;

// What a real number becomes beside nothing complex: float stays, every other type is double.
template <class S>
using promoted = ::numjit_standard::conditional_t<::numjit_standard::is_same_v<S, float>, float, double>;
// A class, so that numjit/dual_complex.h can say it of duals.
template <class A, class B>
struct wider_of {
  using type = ::numjit_standard::conditional_t<(sizeof(A) > sizeof(B)), A, B>;
};
template <class A, class B>
using wider = typename wider_of<A, B>::type;
}  // namespace detail

template <class R>
class complex {
  static_assert(::numjit_standard::is_same_v<R, float> || ::numjit_standard::is_same_v<R, double>,
                "complex numbers are of float or double");

 public:
  using value_type = R;
  template <class S, class = detail::if_real<S, void>>
  constexpr complex(S re) : re_(static_cast<R>(re)), im_(0) {}
  template <class A, class B, class = detail::if_real<A, void>, class = detail::if_real<B, void>>
  constexpr complex(A re, B im) : re_(static_cast<R>(re)), im_(static_cast<R>(im)) {}
  constexpr complex() : re_(0), im_(0) {}
  constexpr complex(const complex&) = default;
  constexpr complex& operator=(const complex&) = default;
  template <class Q>
  constexpr complex(const complex<Q>& z) : re_(static_cast<R>(z.real())), im_(static_cast<R>(z.imag())) {}

  constexpr R real() const { return re_; }
  constexpr R imag() const { return im_; }
  constexpr void real(R x) { re_ = x; }
  constexpr void imag(R x) { im_ = x; }

  template <class S>
  constexpr detail::if_real<S, complex&> operator+=(S s) {
    return *this = *this + s;
  }
  template <class Q>
  constexpr complex& operator+=(const complex<Q>& z) {
    return *this = *this + z;
  }
  template <class S>
  constexpr detail::if_real<S, complex&> operator-=(S s) {
    return *this = *this - s;
  }
  template <class Q>
  constexpr complex& operator-=(const complex<Q>& z) {
    return *this = *this - z;
  }
  template <class S>
  constexpr detail::if_real<S, complex&> operator*=(S s) {
    return *this = *this * s;
  }
  template <class Q>
  constexpr complex& operator*=(const complex<Q>& z) {
    return *this = *this * z;
  }
  template <class S>
  constexpr detail::if_real<S, complex&> operator/=(S s) {
    return *this = *this / s;
  }
  template <class Q>
  constexpr complex& operator/=(const complex<Q>& z) {
    return *this = *this / z;
  }

 private:
  R re_;
  R im_;
};

template <class R>
constexpr complex<R> operator+(const complex<R>& z) {
  return z;
}
template <class R>
constexpr complex<R> operator-(const complex<R>& z) {
  return complex<R>(-z.real(), -z.imag());
}
template <class A, class B, class R = detail::wider<A, B>>
constexpr complex<R> operator+(const complex<A>& a, const complex<B>& b) {
  return complex<R>(R(a.real()) + R(b.real()), R(a.imag()) + R(b.imag()));
}
template <class A, class B, class R = detail::wider<A, B>>
constexpr complex<R> operator-(const complex<A>& a, const complex<B>& b) {
  return complex<R>(R(a.real()) - R(b.real()), R(a.imag()) - R(b.imag()));
}
template <class A, class B, class R = detail::wider<A, B>>
constexpr complex<R> operator*(const complex<A>& x, const complex<B>& y) {
  const R a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  return complex<R>(a * c - b * d, a * d + b * c);
}
template <class A, class B, class R = detail::wider<A, B>>
constexpr complex<R> operator/(const complex<A>& x, const complex<B>& y) {
  const R a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  const R size_c = c < 0 ? -c : c, size_d = d < 0 ? -d : d;
  if (size_c >= size_d) {
    if (size_c == 0) return complex<R>(a / size_c, b / size_d);
    const R ratio = d / c, scale = R(1) / (c + d * ratio);
    return complex<R>((a + b * ratio) * scale, (b - a * ratio) * scale);
  }
  const R ratio = c / d, scale = R(1) / (d + c * ratio);
  return complex<R>((a * ratio + b) * scale, (b * ratio - a) * scale);
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator+(const complex<R>& z, S s) {
  return complex<R>(z.real() + static_cast<R>(s), z.imag());
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator+(S s, const complex<R>& z) {
  return complex<R>(static_cast<R>(s) + z.real(), z.imag());
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator-(const complex<R>& z, S s) {
  return complex<R>(z.real() - static_cast<R>(s), z.imag());
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator-(S s, const complex<R>& z) {
  return complex<R>(static_cast<R>(s) - z.real(), -z.imag());
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator*(const complex<R>& z, S s) {
  return complex<R>(z.real() * static_cast<R>(s), z.imag() * static_cast<R>(s));
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator*(S s, const complex<R>& z) {
  return complex<R>(static_cast<R>(s) * z.real(), static_cast<R>(s) * z.imag());
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator/(const complex<R>& z, S s) {
  return complex<R>(z.real() / static_cast<R>(s), z.imag() / static_cast<R>(s));
}
template <class R, class S>
constexpr detail::if_real<S, complex<R>> operator/(S s, const complex<R>& z) {
  return complex<R>(s) / z;
}
template <class A, class B>
constexpr bool operator==(const complex<A>& a, const complex<B>& b) {
  return a.real() == b.real() && a.imag() == b.imag();
}
template <class A, class B>
constexpr bool operator!=(const complex<A>& a, const complex<B>& b) {
  return !(a == b);
}
template <class R, class S>
constexpr detail::if_real<S, bool> operator==(const complex<R>& z, S s) {
  return z.real() == static_cast<R>(s) && z.imag() == 0;
}
template <class R, class S>
constexpr detail::if_real<S, bool> operator==(S s, const complex<R>& z) {
  return z == s;
}
template <class R, class S>
constexpr detail::if_real<S, bool> operator!=(const complex<R>& z, S s) {
  return !(z == s);
}
template <class R, class S>
constexpr detail::if_real<S, bool> operator!=(S s, const complex<R>& z) {
  return !(z == s);
}

template <class R>
constexpr R real(const complex<R>& z) {
  return z.real();
}
template <class R>
constexpr R imag(const complex<R>& z) {
  return z.imag();
}
template <class R>
NUMJIT_INLINE R abs(const complex<R>& z) {
  return detail::std::hypot(z.real(), z.imag());
}
template <class R>
NUMJIT_INLINE R arg(const complex<R>& z) {
  return detail::std::atan2(z.imag(), z.real());
}
template <class R>
constexpr R norm(const complex<R>& z) {
  return z.real() * z.real() + z.imag() * z.imag();
}
template <class R>
constexpr complex<R> conj(const complex<R>& z) {
  return complex<R>(z.real(), -z.imag());
}
template <class R>
NUMJIT_INLINE complex<R> proj(const complex<R>& z) {
  if (detail::std::fabs(z.real()) == R(HUGE_VAL) || detail::std::fabs(z.imag()) == R(HUGE_VAL))
    return complex<R>(R(HUGE_VAL), detail::std::copysign(R(0), z.imag()));
  return z;
}
template <class S>
constexpr detail::if_real<S, detail::promoted<S>> real(S x) {
  return x;
}
template <class S>
constexpr detail::if_real<S, detail::promoted<S>> imag(S) {
  return 0;
}
template <class S>
NUMJIT_INLINE detail::if_real<S, detail::promoted<S>> arg(S x) {
  return detail::std::atan2(detail::promoted<S>(0), static_cast<detail::promoted<S>>(x));
}
template <class S>
constexpr detail::if_real<S, detail::promoted<S>> norm(S x) {
  return static_cast<detail::promoted<S>>(x) * static_cast<detail::promoted<S>>(x);
}
template <class S>
constexpr detail::if_real<S, complex<detail::promoted<S>>> conj(S x) {
  return complex<detail::promoted<S>>(x);
}
template <class S>
NUMJIT_INLINE detail::if_real<S, complex<detail::promoted<S>>> proj(S x) {
  return proj(complex<detail::promoted<S>>(x));
}
template <class A, class B, class R = detail::wider<detail::promoted<A>, detail::promoted<B>>>
NUMJIT_INLINE detail::if_real<A, complex<R>> polar(A rho, B theta) {
  const R r = static_cast<R>(rho), t = static_cast<R>(theta);
  return complex<R>(r * detail::std::cos(t), r * detail::std::sin(t));
}
template <class A>
NUMJIT_INLINE detail::if_real<A, complex<detail::promoted<A>>> polar(A rho) {
  return complex<detail::promoted<A>>(rho);
}

namespace detail {
template <class R>
complex<R> power(const complex<R>& z, const complex<R>& w);
}  // namespace detail

template <class A, class B, class R = detail::wider<A, B>>
NUMJIT_INLINE complex<R> pow(const complex<A>& base, const complex<B>& power) {
  return detail::power(complex<R>(base), complex<R>(power));
}
template <class R, class S>
NUMJIT_INLINE detail::if_real<S, complex<R>> pow(const complex<R>& base, S power) {
  if (power == S(2)) return base * base;
  if (power == S(1)) return base;
  return pow(base, complex<R>(power));
}
template <class S, class R>
NUMJIT_INLINE detail::if_real<S, complex<R>> pow(S base, const complex<R>& power) {
  return pow(complex<R>(base), power);
}

}  // namespace numjit_complex
#undef NUMJIT_INLINE

namespace numjit_standard {
using numjit_complex::abs;
using numjit_complex::arg;
using numjit_complex::complex;
using numjit_complex::conj;
using numjit_complex::imag;
using numjit_complex::norm;
using numjit_complex::polar;
using numjit_complex::proj;
using numjit_complex::real;

//@ numjit_code
template <class R>
struct numjit_code<numjit_complex::complex<R>> {
  static constexpr int value = 500 + 2 * sizeof(R);
};
//@
}  // namespace numjit_standard
