// Complex numbers whose parts are duals: what a complex template parameter stands for while a functor is
// differentiated. The arithmetic of complex.h serves them as it is; functions of it that are holomorphic get
// their derivative as a rule here, since their formulas branch where the derivative does not.
namespace numjit_complex {
namespace dual {
namespace std = ::numjit_standard;
using ::numjit_dual::Dual;
using ::numjit_dual::Partial;
using ::numjit_dual::depth;
using ::numjit_dual::leaf;
using ::numjit_dual::with_leaf;

// R with as many derivatives as S has, still around R's own number.
template <class R, class S>
using beside = std::conditional_t<(depth<S> > depth<R>), with_leaf<S, leaf<R>>, R>;
template <class S>
using if_dual = std::enable_if_t<(depth<S> > 0), int>;
}  // namespace dual

namespace detail {
template <class R, int N, class H, class B>
struct wider_of<::numjit_dual::Dual<R, N, H>, B> {
  using type = decltype(::numjit_dual::Dual<R, N, H>() + B());
};
template <class A, class R, int N, class H>
struct wider_of<A, ::numjit_dual::Dual<R, N, H>> {
  using type = decltype(A() + ::numjit_dual::Dual<R, N, H>());
};
template <class R, int M, class G, class Q, int N, class H>
struct wider_of<::numjit_dual::Dual<R, M, G>, ::numjit_dual::Dual<Q, N, H>> {
  using type = decltype(::numjit_dual::Dual<R, M, G>() + ::numjit_dual::Dual<Q, N, H>());
};
}  // namespace detail

template <class R, int N, class H>
class complex<::numjit_dual::Dual<R, N, H>> {
  using D = ::numjit_dual::Dual<R, N, H>;
  template <class S>
  using if_number = ::numjit_standard::enable_if_t<(::numjit_dual::depth<S> >= 0), int>;

 public:
  using value_type = D;
  constexpr complex() : re_(), im_() {}
  constexpr complex(const complex&) = default;
  constexpr complex& operator=(const complex&) = default;
  template <class S, if_number<S> = 0>
  constexpr complex(const S& re) : re_(static_cast<D>(re)), im_() {}
  template <class A, class B, if_number<A> = 0, if_number<B> = 0>
  constexpr complex(const A& re, const B& im) : re_(static_cast<D>(re)), im_(static_cast<D>(im)) {}
  template <class Q>
  constexpr complex(const complex<Q>& z) : re_(static_cast<D>(z.real())), im_(static_cast<D>(z.imag())) {}

  constexpr D real() const { return re_; }
  constexpr D imag() const { return im_; }
  constexpr void real(const D& x) { re_ = x; }
  constexpr void imag(const D& x) { im_ = x; }

#define NUMJIT_ASSIGN(op)                              \
  template <class S, if_number<S> = 0>                 \
  constexpr complex& operator op##=(const S& s) {      \
    return *this = complex(*this op s);                \
  }                                                    \
  template <class Q>                                   \
  constexpr complex& operator op##=(const complex<Q>& z) { \
    return *this = complex(*this op z);                \
  }
  NUMJIT_ASSIGN(+)
  NUMJIT_ASSIGN(-)
  NUMJIT_ASSIGN(*)
  NUMJIT_ASSIGN(/)
#undef NUMJIT_ASSIGN

 private:
  D re_;
  D im_;
};

// A real dual beside a complex number of either kind.
#define NUMJIT_BESIDE(op)                                                                \
  template <class R, class S, dual::if_dual<S> = 0>                                      \
  NUMJIT_DUAL constexpr auto operator op(const complex<R>& z, const S& s) {              \
    using D = dual::beside<R, S>;                                                        \
    return complex<D>(z) op complex<D>(static_cast<D>(s));                               \
  }                                                                                      \
  template <class R, class S, dual::if_dual<S> = 0>                                      \
  NUMJIT_DUAL constexpr auto operator op(const S& s, const complex<R>& z) {              \
    using D = dual::beside<R, S>;                                                        \
    return complex<D>(static_cast<D>(s)) op complex<D>(z);                               \
  }
NUMJIT_BESIDE(+)
NUMJIT_BESIDE(-)
NUMJIT_BESIDE(/)
NUMJIT_BESIDE(==)
NUMJIT_BESIDE(!=)
#undef NUMJIT_BESIDE
template <class R, class S, dual::if_dual<S> = 0>
NUMJIT_DUAL constexpr auto operator*(const complex<R>& z, const S& s) {
  using D = dual::beside<R, S>;
  return complex<D>(D(z.real()) * static_cast<D>(s), D(z.imag()) * static_cast<D>(s));
}
template <class R, class S, dual::if_dual<S> = 0>
NUMJIT_DUAL constexpr auto operator*(const S& s, const complex<R>& z) {
  return z * s;
}

namespace dual {
template <class R, int N, class H>
NUMJIT_DUAL complex<R> value(const complex<Dual<R, N, H>>& z) {
  return complex<R>(z.real().v, z.imag().v);
}
// Adds slope * dz to the partials of the result's parts: re and im share the derivatives of each part of z.
template <class R, int N, class H>
NUMJIT_DUAL void chain(
    Dual<R, N, H>& re, Dual<R, N, H>& im, const complex<Dual<R, N, H>>& z, const complex<R>& slope) {
  const Dual<R, N, H> x = z.real(), y = z.imag();
  ::numjit_dual::chain(re, x, slope.real());
  ::numjit_dual::chain(im, x, slope.imag());
  ::numjit_dual::chain(re, y, R(-slope.imag()));
  ::numjit_dual::chain(im, y, slope.real());
}
}  // namespace dual

// In what is derived, x and y are the operands and v is the value.
#define NUMJIT_HOLOMORPHIC(f, SLOPE)                                                       \
  template <class R, int N, class H>                                                                \
  NUMJIT_DUAL complex<dual::Dual<R, N, H>> f(const complex<dual::Dual<R, N, H>>& a) {            \
    const complex<R> x = dual::value(a), v = f(x);                                         \
    (void)x;                                                                               \
    dual::Dual<R, N, H> re(v.real()), im(v.imag());                                           \
    dual::chain(re, im, a, complex<R>(SLOPE));                                             \
    return complex<dual::Dual<R, N, H>>(re, im);                                              \
  }
#define NUMJIT_HOLOMORPHIC2(f, SLOPE_A, SLOPE_B)                                               \
  template <class R, int N, class H>                                                           \
  NUMJIT_DUAL complex<dual::Dual<R, N, H>> f(                                                  \
      const complex<dual::Dual<R, N, H>>& a, const complex<dual::Dual<R, N, H>>& b) {          \
    const complex<R> x = dual::value(a), y = dual::value(b), v = f(x, y);                      \
    dual::Dual<R, N, H> re(v.real()), im(v.imag());                                            \
    dual::chain(re, im, a, complex<R>(SLOPE_A));                                               \
    dual::chain(re, im, b, complex<R>(SLOPE_B));                                               \
    return complex<dual::Dual<R, N, H>>(re, im);                                               \
  }
// A real number of a complex one, by the derivatives of which for its parts.
#define NUMJIT_OF_PARTS2(f, SLOPE_RE, SLOPE_IM)                                                \
  template <class R, int N, class H>                                                           \
  NUMJIT_DUAL dual::Dual<R, N, H> f(const complex<dual::Dual<R, N, H>>& a) {                   \
    const complex<R> x = dual::value(a);                                                       \
    const R v = f(x);                                                                          \
    dual::Dual<R, N, H> r(v);                                                                  \
    ::numjit_dual::chain(r, a.real(), static_cast<R>(SLOPE_RE));                               \
    ::numjit_dual::chain(r, a.imag(), static_cast<R>(SLOPE_IM));                               \
    return r;                                                                                  \
  }
// numjit.rules: complex rules
NUMJIT_HOLOMORPHIC2(operator/, R(1) / y, -(v / y))
NUMJIT_HOLOMORPHIC2(pow, y == R(0) ? complex<R>(R(0)) : complex<R>(y * pow(x, y - R(1))), x == R(0) & (y.real() >=
    R(0) & y.imag() == R(0)) ? complex<R>(R(0)) : complex<R>(v * log(x)))
NUMJIT_HOLOMORPHIC(exp, v)
NUMJIT_HOLOMORPHIC(log, R(1) / x)
NUMJIT_HOLOMORPHIC(log2, R(1) / x * R(1.4426950408889634))
NUMJIT_HOLOMORPHIC(log10, R(1) / x * R(0.43429448190325176))
NUMJIT_HOLOMORPHIC(sqrt, R(0.5) / v)
NUMJIT_HOLOMORPHIC(sin, cos(x))
NUMJIT_HOLOMORPHIC(cos, -sin(x))
NUMJIT_HOLOMORPHIC(tan, v * v + R(1))
NUMJIT_HOLOMORPHIC(asin, R(1) / sqrt(R(1) - x) * (R(1) / sqrt(R(1) + x)))
NUMJIT_HOLOMORPHIC(acos, -(R(1) / sqrt(R(1) - x) * (R(1) / sqrt(R(1) + x))))
template <class R>
NUMJIT_DUAL complex<R> slope_of_atan(const complex<R>& x) {
  const complex<R> t0 = x * complex<R>(R(0), R(1));
  return R(1) / (R(1) - t0) * (R(1) / (R(1) + t0));
}
NUMJIT_HOLOMORPHIC(atan, slope_of_atan(x))
NUMJIT_HOLOMORPHIC(sinh, cosh(x))
NUMJIT_HOLOMORPHIC(cosh, sinh(x))
NUMJIT_HOLOMORPHIC(tanh, R(1) - v * v)
template <class R>
NUMJIT_DUAL complex<R> slope_of_asinh(const complex<R>& x) {
  const complex<R> t0 = x * complex<R>(R(0), R(1));
  return R(1) / sqrt(R(1) - t0) * (R(1) / sqrt(R(1) + t0));
}
NUMJIT_HOLOMORPHIC(asinh, slope_of_asinh(x))
NUMJIT_HOLOMORPHIC(acosh, R(1) / sqrt(x - R(1)) * (R(1) / sqrt(x + R(1))))
NUMJIT_HOLOMORPHIC(atanh, R(1) / (R(1) - x) * (R(1) / (R(1) + x)))
NUMJIT_OF_PARTS2(abs, v == R(0) ? R(0) : R(x.real() / v), v == R(0) ? R(0) : R(x.imag() / v))
template <class R>
NUMJIT_DUAL R slope_of_arg_by_x(const complex<R>& x) {
  const R t0 = abs(x);
  const bool t1 = t0 == R(0);
  return t1 ? R(0) : R(-(t1 ? R(0) : R(x.imag() / t0)) / t0);
}
template <class R>
NUMJIT_DUAL R slope_of_arg_by_y(const complex<R>& x) {
  const R t0 = abs(x);
  const bool t1 = t0 == R(0);
  return t1 ? R(0) : R((t1 ? R(0) : R(x.real() / t0)) / t0);
}
NUMJIT_OF_PARTS2(arg, slope_of_arg_by_x(x), slope_of_arg_by_y(x))
// numjit.rules: end
#undef NUMJIT_HOLOMORPHIC
#undef NUMJIT_HOLOMORPHIC2
#undef NUMJIT_OF_PARTS2

template <class R, int N, class H, class S, dual::std::enable_if_t<(dual::depth<S> >= 0), int> = 0>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> pow(const complex<dual::Dual<R, N, H>>& a, const S& b) {
  using D = dual::Dual<R, N, H>;
  if constexpr (dual::depth<S> == 0) {
    if (b == S(2)) return a * a;
    if (b == S(1)) return a;
  }
  return pow(a, complex<D>(static_cast<D>(b)));
}
template <class R, int N, class H, class S, dual::std::enable_if_t<(dual::depth<S> >= 0), int> = 0>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> pow(const S& a, const complex<dual::Dual<R, N, H>>& b) {
  using D = dual::Dual<R, N, H>;
  return pow(complex<D>(static_cast<D>(a)), b);
}
template <class R, int N, class H, class Q, dual::std::enable_if_t<dual::std::is_arithmetic_v<Q>, int> = 0>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> pow(const complex<dual::Dual<R, N, H>>& a, const complex<Q>& b) {
  return pow(a, complex<dual::Dual<R, N, H>>(b));
}
template <class R, int N, class H, class Q, dual::std::enable_if_t<dual::std::is_arithmetic_v<Q>, int> = 0>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> pow(const complex<Q>& a, const complex<dual::Dual<R, N, H>>& b) {
  return pow(complex<dual::Dual<R, N, H>>(a), b);
}

template <class R, int N, class H>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> proj(const complex<dual::Dual<R, N, H>>& z) {
  const complex<R> x = dual::value(z), w = proj(x);
  return x.real() == w.real() && x.imag() == w.imag() ? z : complex<dual::Dual<R, N, H>>(w);
}
template <class A, class B, ::numjit_dual::if_dual<A, B> = 0>
NUMJIT_DUAL auto polar(const A& rho, const B& theta) {
  using ::numjit_dual::cos;
  using ::numjit_dual::sin;
  using D = decltype(rho * cos(theta));
  return complex<D>(rho * cos(theta), rho * sin(theta));
}
template <class R, int N, class H>
NUMJIT_DUAL auto polar(const dual::Dual<R, N, H>& rho) {
  return complex<dual::Dual<R, N, H>>(rho);
}
template <class R, int N, class H>
NUMJIT_DUAL dual::Dual<R, N, H> real(const dual::Dual<R, N, H>& x) {
  return x;
}
template <class R, int N, class H>
NUMJIT_DUAL dual::Dual<R, N, H> imag(const dual::Dual<R, N, H>&) {
  return dual::Dual<R, N, H>();
}
template <class R, int N, class H>
NUMJIT_DUAL dual::Dual<R, N, H> norm(const dual::Dual<R, N, H>& x) {
  return x * x;
}
template <class R, int N, class H>
NUMJIT_DUAL dual::Dual<R, N, H> arg(const dual::Dual<R, N, H>& x) {
  return dual::Dual<R, N, H>(arg(x.v));
}
template <class R, int N, class H>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> conj(const dual::Dual<R, N, H>& x) {
  return complex<dual::Dual<R, N, H>>(x);
}
template <class R, int N, class H>
NUMJIT_DUAL complex<dual::Dual<R, N, H>> proj(const dual::Dual<R, N, H>& x) {
  return proj(complex<dual::Dual<R, N, H>>(x));
}
}  // namespace numjit_complex

// Where `real(x)` of a real dual looks.
namespace numjit_dual {
using ::numjit_complex::arg;
using ::numjit_complex::conj;
using ::numjit_complex::imag;
using ::numjit_complex::norm;
using ::numjit_complex::polar;
using ::numjit_complex::proj;
using ::numjit_complex::real;

template <class R, int N>
struct lifting<::numjit_complex::complex<R>, N> {
  using type = ::numjit_complex::complex<Dual<R, N, leaf<R>>>;
  static constexpr int directions = 2;
};
template <int N, int I, class R>
NUMJIT_DUAL ::numjit_complex::complex<Dual<R, N, leaf<R>>> seed(const ::numjit_complex::complex<R>& z) {
  return ::numjit_complex::complex<Dual<R, N, leaf<R>>>(seed<N, I>(z.real()), seed<N, I + 1>(z.imag()));
}
template <class R>
NUMJIT_DUAL ::numjit_complex::complex<Dual<R, 1, leaf<R>>> moving(
    const ::numjit_complex::complex<R>& z, const ::numjit_complex::complex<R>& tangent) {
  return ::numjit_complex::complex<Dual<R, 1, leaf<R>>>(moving(z.real(), tangent.real()), moving(z.imag(), tangent.imag()));
}
template <class R, int N, class H>
NUMJIT_DUAL ::numjit_complex::complex<R> tangent(const ::numjit_complex::complex<Dual<R, N, H>>& z) {
  return ::numjit_complex::complex<R>(tangent(z.real()), tangent(z.imag()));
}
// Re(conj(g) * dz), torch's convention.
template <int I, class S, class Q, class R, int N, class H, std::enable_if_t<(depth<Q> == depth<R>), int> = 0>
NUMJIT_DUAL void pull(
    Partial<S>& sum, const ::numjit_complex::complex<Q>& g, const ::numjit_complex::complex<Dual<R, N, H>>& r) {
  pull<I>(sum, g.real(), r.real());
  pull<I>(sum, g.imag(), r.imag());
}
template <class S, int I>
struct Gradient<::numjit_complex::complex<S>, I> {
  Gradient<S, I> re;
  Gradient<S, I + 1> im;
  template <class G, class Q>
  NUMJIT_DUAL void take(const G& g, const Q& r) {
    re.take(g, r);
    im.take(g, r);
  }
  NUMJIT_DUAL ::numjit_complex::complex<S> get() const {
    return ::numjit_complex::complex<S>(re.get(), im.get());
  }
};
}  // namespace numjit_dual

namespace numjit_standard {
template <class R, int N, class H>
struct numjit_code<numjit_complex::complex<numjit_dual::Dual<R, N, H>>>
    : numjit_code<numjit_complex::complex<R>> {};
using numjit_complex::arg;
using numjit_complex::conj;
using numjit_complex::imag;
using numjit_complex::norm;
using numjit_complex::polar;
using numjit_complex::proj;
using numjit_complex::real;
#define NUMJIT_USING(f) using numjit_complex::f;
NUMJIT_USING(abs)
NUMJIT_USING(acos)
NUMJIT_USING(acosh)
NUMJIT_USING(asin)
NUMJIT_USING(asinh)
NUMJIT_USING(atan)
NUMJIT_USING(atanh)
NUMJIT_USING(cos)
NUMJIT_USING(cosh)
NUMJIT_USING(exp)
NUMJIT_USING(log)
NUMJIT_USING(log10)
NUMJIT_USING(log2)
NUMJIT_USING(pow)
NUMJIT_USING(sin)
NUMJIT_USING(sinh)
NUMJIT_USING(sqrt)
NUMJIT_USING(tan)
NUMJIT_USING(tanh)
#undef NUMJIT_USING
}  // namespace numjit_standard

namespace numjit_scope {
namespace std {
template <class R, int N, class H>
struct numjit_plain<::numjit_complex::complex<::numjit_dual::Dual<R, N, H>>> {
  using type = ::numjit_complex::complex<::numjit_dual::leaf<R>>;
};
}  // namespace std
}  // namespace numjit_scope
