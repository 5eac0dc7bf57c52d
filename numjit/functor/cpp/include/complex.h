// std::complex for functors, the same on device and host. It differs from the standard's on purpose: a
// real operand of any arithmetic type keeps the precision of the complex one (`2.0 * x` is complex<float>
// for such an x, as torch has it), and multiplication and division do not go through a library call.
// Found by argument-dependent lookup, so the namespace holds the standard's names only.
//
// Formulas: Kahan, "Branch cuts for complex elementary functions" (1987), for the inverse functions, tanh
// and the signs on the cuts; Smith (1962) for division.
#ifdef __CUDACC_RTC__
#define NUMJIT_INLINE __forceinline__
#else
#define NUMJIT_INLINE inline
#endif

namespace numjit_complex {

template <class R>
class complex;

namespace detail {
namespace std = ::numjit_standard;

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

template <class R>
NUMJIT_INLINE R infinity() {
  return std::numeric_limits<R>::infinity();
}
template <class R>
NUMJIT_INLINE R not_a_number() {
  return std::numeric_limits<R>::quiet_NaN();
}
template <class R>
NUMJIT_INLINE bool finite(R x) {
  return std::fabs(x) <= std::numeric_limits<R>::max();
}
template <class R>
NUMJIT_INLINE bool infinite(R x) {
  return std::fabs(x) > std::numeric_limits<R>::max();
}
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
  if (detail::infinite(z.real()) || detail::infinite(z.imag()))
    return complex<R>(detail::infinity<R>(), detail::std::copysign(R(0), z.imag()));
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
// (exp(x) * c, exp(x) * s) where exp(x) alone may overflow and the products need not.
template <class R>
NUMJIT_INLINE complex<R> scaled_exp(R x, R c, R s) {
  const R whole = std::exp(x);
  if (finite(whole)) return complex<R>(whole * c, whole * s);
  const R half = std::exp(x * R(0.5));
  return complex<R>(half * c * half, half * s * half);
}
}  // namespace detail

template <class R>
NUMJIT_INLINE complex<R> exp(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (y == 0) return complex<R>(detail::std::exp(x), y);
  if (!detail::finite(y) && detail::infinite(x)) {
    if (x < 0) return complex<R>(0, 0);
    return complex<R>(x, detail::not_a_number<R>());
  }
  return detail::scaled_exp(x, detail::std::cos(y), detail::std::sin(y));
}
template <class R>
NUMJIT_INLINE complex<R> log(const complex<R>& z) {
  const R size_x = detail::std::fabs(z.real()), size_y = detail::std::fabs(z.imag());
  const R big = size_x > size_y ? size_x : size_y, small = size_x > size_y ? size_y : size_x;
  R size;
  // Near the unit circle log(hypot(x, y)) loses every digit; log1p keeps them.
  if (big > R(0.5) && big < R(1.5) && small < R(1.5))
    size = R(0.5) * detail::std::log1p((big - R(1)) * (big + R(1)) + small * small);
  else if (big > detail::std::numeric_limits<R>::max() / 4)
    size = detail::std::log(detail::std::hypot(big * R(0.25), small * R(0.25))) + R(1.3862943611198906188);
  else
    size = detail::std::log(detail::std::hypot(big, small));
  return complex<R>(size, detail::std::atan2(z.imag(), z.real()));
}
template <class R>
NUMJIT_INLINE complex<R> log10(const complex<R>& z) {
  return log(z) * R(0.43429448190325182765);
}
template <class R>
NUMJIT_INLINE complex<R> log2(const complex<R>& z) {
  return log(z) * R(1.4426950408889634074);
}
template <class R>
NUMJIT_INLINE complex<R> sqrt(const complex<R>& z) {
  R x = z.real(), y = z.imag();
  if (detail::infinite(y)) return complex<R>(detail::infinity<R>(), y);
  if (x == 0 && y == 0) return complex<R>(0, y);
  if (detail::infinite(x)) {
    const R beside = y == y ? R(0) : y;
    if (x > 0) return complex<R>(x, y == y ? detail::std::copysign(R(0), y) : y);
    return complex<R>(beside, detail::std::copysign(detail::infinity<R>(), y));
  }
  // Scaled by a power of four, so that neither the sum overflows nor a subnormal loses digits.
  const R size = detail::std::fabs(x) > detail::std::fabs(y) ? detail::std::fabs(x) : detail::std::fabs(y);
  R back = 1;
  if (size > detail::std::numeric_limits<R>::max() / 4) {
    x *= R(0.25);
    y *= R(0.25);
    back = 2;
  } else if (size < detail::std::numeric_limits<R>::min() * 16) {
    x *= R(16777216);
    y *= R(16777216);
    back = R(1) / R(4096);
  }
  const R root = detail::std::sqrt((detail::std::fabs(x) + detail::std::hypot(x, y)) * R(0.5));
  const R other = y / (2 * root);
  if (x >= 0) return complex<R>(root * back, other * back);
  return complex<R>(detail::std::fabs(other) * back, detail::std::copysign(root, y) * back);
}
template <class R>
NUMJIT_INLINE complex<R> sinh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (y == 0) return complex<R>(detail::std::sinh(x), y);
  if (detail::infinite(x) && !detail::finite(y)) return complex<R>(detail::std::fabs(x), detail::not_a_number<R>());
  const R c = detail::std::cos(y), s = detail::std::sin(y);
  const R wide = detail::std::cosh(x);
  if (x == 0) return complex<R>(detail::std::copysign(R(0), x * (c == c ? c : R(1))), s);
  if (detail::finite(wide) || !detail::finite(x)) return complex<R>(detail::std::sinh(x) * c, wide * s);
  const complex<R> half = detail::scaled_exp(detail::std::fabs(x), c, s) * R(0.5);
  return complex<R>(detail::std::copysign(R(1), x) * half.real(), half.imag());
}
template <class R>
NUMJIT_INLINE complex<R> cosh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (y == 0) return complex<R>(detail::std::cosh(x), y * detail::std::copysign(R(1), x));
  if (detail::infinite(x) && !detail::finite(y)) return complex<R>(detail::std::fabs(x), detail::not_a_number<R>());
  const R c = detail::std::cos(y), s = detail::std::sin(y);
  const R wide = detail::std::cosh(x);
  if (x == 0) return complex<R>(c, detail::std::copysign(R(0), x * s));
  if (detail::finite(wide) || !detail::finite(x)) return complex<R>(wide * c, detail::std::sinh(x) * s);
  const complex<R> half = detail::scaled_exp(detail::std::fabs(x), c, s) * R(0.5);
  return complex<R>(half.real(), detail::std::copysign(R(1), x) * half.imag());
}
template <class R>
NUMJIT_INLINE complex<R> tanh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R size = detail::std::fabs(x);
  if (detail::infinite(x)) {
    const R turn = detail::finite(y) ? detail::std::sin(y) * detail::std::cos(y) : R(1);
    return complex<R>(detail::std::copysign(R(1), x), detail::std::copysign(R(0), turn));
  }
  if (y == 0) return complex<R>(detail::std::tanh(x), y);
  if (!detail::finite(y)) return complex<R>(x == 0 ? x : detail::not_a_number<R>(), detail::not_a_number<R>());
  if (size > (sizeof(R) == 4 ? R(11) : R(22))) {
    const R decay = detail::std::exp(-size);
    return complex<R>(detail::std::copysign(R(1), x),
                      4 * detail::std::sin(y) * detail::std::cos(y) * decay * decay);
  }
  const R t = detail::std::tan(y), s = detail::std::sinh(x);
  const R beta = 1 + t * t, rho = detail::std::sqrt(1 + s * s);
  if (detail::infinite(t)) return complex<R>(rho / s, 1 / t);
  const R scale = 1 / (1 + beta * s * s);
  return complex<R>(beta * rho * s * scale, t * scale);
}
template <class R>
NUMJIT_INLINE complex<R> sin(const complex<R>& z) {
  const complex<R> turned = sinh(complex<R>(-z.imag(), z.real()));
  return complex<R>(turned.imag(), -turned.real());
}
template <class R>
NUMJIT_INLINE complex<R> cos(const complex<R>& z) {
  return cosh(complex<R>(-z.imag(), z.real()));
}
template <class R>
NUMJIT_INLINE complex<R> tan(const complex<R>& z) {
  const complex<R> turned = tanh(complex<R>(-z.imag(), z.real()));
  return complex<R>(turned.imag(), -turned.real());
}

namespace detail {
// Whether z is so large that the roots below overflow or infinities cancel in them.
template <class R>
NUMJIT_INLINE bool huge(const complex<R>& z) {
  const R limit = std::numeric_limits<R>::max() / 8;
  return std::fabs(z.real()) > limit || std::fabs(z.imag()) > limit;
}
// log|2z|.
template <class R>
NUMJIT_INLINE R log_twice(const complex<R>& z) {
  return std::log(std::hypot(z.real() * R(0.125), z.imag() * R(0.125))) + R(2.7725887222397812377);
}
}  // namespace detail

template <class R>
NUMJIT_INLINE complex<R> acos(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (x == 0 && y != y) return complex<R>(R(1.57079632679489661923), y);
  if (detail::huge(z)) {
    const R turn = detail::std::atan2(detail::std::fabs(y), x);
    return complex<R>(turn, detail::std::copysign(detail::log_twice(z), -y));
  }
  const complex<R> below = sqrt(complex<R>(1 - x, -y)), above = sqrt(complex<R>(1 + x, y));
  return complex<R>(2 * detail::std::atan2(below.real(), above.real()),
                    detail::std::asinh(above.real() * below.imag() - above.imag() * below.real()));
}
template <class R>
NUMJIT_INLINE complex<R> asin(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (x == 0 && y != y) return z;
  if (detail::huge(z))
    return complex<R>(detail::std::atan2(x, detail::std::fabs(y)),
                      detail::std::copysign(detail::log_twice(z), y));
  const complex<R> below = sqrt(complex<R>(1 - x, -y)), above = sqrt(complex<R>(1 + x, y));
  return complex<R>(detail::std::atan2(x, below.real() * above.real() - below.imag() * above.imag()),
                    detail::std::asinh(below.real() * above.imag() - below.imag() * above.real()));
}
template <class R>
NUMJIT_INLINE complex<R> acosh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (x == 0 && y != y) return complex<R>(y, R(1.57079632679489661923));
  if (detail::huge(z)) return complex<R>(detail::log_twice(z), detail::std::atan2(y, x));
  const complex<R> below = sqrt(complex<R>(x - 1, y)), above = sqrt(complex<R>(x + 1, y));
  return complex<R>(detail::std::asinh(below.real() * above.real() + below.imag() * above.imag()),
                    2 * detail::std::atan2(below.imag(), above.real()));
}
template <class R>
NUMJIT_INLINE complex<R> atanh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R size_x = detail::std::fabs(x), size_y = detail::std::fabs(y);
  const R half_turn = R(1.57079632679489661923);
  const R limit = detail::std::sqrt(detail::std::numeric_limits<R>::max()) / 4;
  if (x == 0 && y != y) return z;
  if ((x != x && !detail::infinite(y)) || (y != y && !detail::infinite(x)))
    return complex<R>(detail::not_a_number<R>(), detail::not_a_number<R>());
  if (y != y) return complex<R>(detail::std::copysign(R(0), x), y);
  if (size_x > limit || size_y > limit) {
    // Re(1/z), scaled; a quarter turn from the real axis.
    const R ratio = size_x > size_y ? y / x : x / y;
    R part = size_x > size_y ? (1 / x) / (1 + ratio * ratio) : (ratio / y) / (1 + ratio * ratio);
    if (detail::infinite(x) || detail::infinite(y)) part = 0;
    return complex<R>(detail::std::copysign(part, x), detail::std::copysign(half_turn, y));
  }
  const R gap = 1 - size_x;
  if (gap == 0 && size_y < detail::std::sqrt(detail::std::numeric_limits<R>::min())) {
    if (size_y == 0) return complex<R>(detail::std::copysign(detail::infinity<R>(), x), y);
    return complex<R>(detail::std::copysign(R(0.5) * (R(0.69314718055994530942) - detail::std::log(size_y)), x),
                      detail::std::copysign(half_turn * R(0.5), y));
  }
  const R re = R(0.25) * detail::std::log1p(4 * size_x / (gap * gap + y * y));
  const R im = R(0.5) * detail::std::atan2(2 * y, gap * (1 + size_x) - y * y);
  return complex<R>(detail::std::copysign(re, x), im);
}
template <class R>
NUMJIT_INLINE complex<R> asinh(const complex<R>& z) {
  const complex<R> turned = asin(complex<R>(-z.imag(), z.real()));
  return complex<R>(turned.imag(), -turned.real());
}
template <class R>
NUMJIT_INLINE complex<R> atan(const complex<R>& z) {
  const complex<R> turned = atanh(complex<R>(-z.imag(), z.real()));
  return complex<R>(turned.imag(), -turned.real());
}

template <class A, class B, class R = detail::wider<A, B>>
NUMJIT_INLINE complex<R> pow(const complex<A>& base, const complex<B>& power) {
  if (power.real() == 0 && power.imag() == 0) return complex<R>(1);
  if (base.real() == 0 && base.imag() == 0) {
    if (power.real() > 0) return complex<R>(0);
    return complex<R>(power.imag() == 0 ? detail::infinity<R>() : detail::not_a_number<R>(),
                      detail::not_a_number<R>());
  }
  return exp(complex<R>(power) * log(complex<R>(base)));
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
using numjit_complex::acos;
using numjit_complex::acosh;
using numjit_complex::arg;
using numjit_complex::asin;
using numjit_complex::asinh;
using numjit_complex::atan;
using numjit_complex::atanh;
using numjit_complex::complex;
using numjit_complex::conj;
using numjit_complex::cos;
using numjit_complex::cosh;
using numjit_complex::exp;
using numjit_complex::imag;
using numjit_complex::log;
using numjit_complex::log10;
using numjit_complex::log2;
using numjit_complex::norm;
using numjit_complex::polar;
using numjit_complex::pow;
using numjit_complex::proj;
using numjit_complex::real;
using numjit_complex::sin;
using numjit_complex::sinh;
using numjit_complex::sqrt;
using numjit_complex::tan;
using numjit_complex::tanh;

template <class R>
struct numjit_code<numjit_complex::complex<R>> {
  static constexpr int value = 500 + 2 * sizeof(R);
};
}  // namespace numjit_standard
