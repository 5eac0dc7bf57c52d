// The derivatives of math functions: rules for duals beside the functions of plain numbers, under every name that
// a functor may call them by. Follows dual.h; what the rules are stands in docs/gradients_cpp_rules.md.
#ifdef __CUDACC_RTC__
#define NUMJIT_CUDA(f) using ::f;
#else
#define NUMJIT_CUDA(f) using ::numjit_scope::f;
#endif

namespace numjit_dual {
// ---------------------------------------------------------------------- functions of plain numbers
// (beside which the rules below stand; those for a Dual's own parts are found by their argument)

// numjit.rules: names
#define NUMJIT_STANDARD_NAMES(DO) \
  DO(abs) DO(acos) DO(acosh) DO(asin) DO(asinh) DO(atan) DO(atan2) DO(atanh) DO(cbrt) DO(ceil) DO(copysign) DO(cos) \
  DO(cosh) DO(erf) DO(erfc) DO(exp) DO(exp2) DO(expm1) DO(fabs) DO(fdim) DO(floor) DO(fma) DO(fmax) DO(fmin) \
  DO(fmod) DO(frexp) DO(hypot) DO(ilogb) DO(isfinite) DO(isinf) DO(isnan) DO(ldexp) DO(llrint) DO(llround) DO(log) \
  DO(log10) DO(log1p) DO(log2) DO(logb) DO(lrint) DO(lround) DO(modf) DO(nearbyint) DO(pow) DO(remainder) DO(rint) \
  DO(round) DO(scalbln) DO(scalbn) DO(signbit) DO(sin) DO(sinh) DO(sqrt) DO(tan) DO(tanh) DO(trunc)
#define NUMJIT_LATER_NAMES(DO) \
  DO(lgamma) DO(tgamma)
#define NUMJIT_CUDA_NAMES(DO) \
  DO(cospi) DO(erfcinv) DO(erfcx) DO(erfinv) DO(exp10) DO(max) DO(min) DO(norm3d) DO(normcdf) DO(normcdfinv) \
  DO(rcbrt) DO(rhypot) DO(rsqrt) DO(sincos) DO(sincospi) DO(sinpi)
#define NUMJIT_FLOAT_NAMES(DO) \
  DO(acos) DO(acosh) DO(asin) DO(asinh) DO(atan) DO(atan2) DO(atanh) DO(cbrt) DO(ceil) DO(copysign) DO(cos) DO(cosh) \
  DO(cospi) DO(erf) DO(erfc) DO(erfcinv) DO(erfcx) DO(erfinv) DO(exp) DO(exp10) DO(exp2) DO(expm1) DO(fabs) DO(fdim) \
  DO(floor) DO(fma) DO(fmax) DO(fmin) DO(fmod) DO(frexp) DO(hypot) DO(ilogb) DO(ldexp) DO(llrint) DO(llround) \
  DO(log) DO(log10) DO(log1p) DO(log2) DO(logb) DO(lrint) DO(lround) DO(modf) DO(nearbyint) DO(norm3d) DO(normcdf) \
  DO(normcdfinv) DO(pow) DO(rcbrt) DO(remainder) DO(rhypot) DO(rint) DO(round) DO(rsqrt) DO(scalbn) DO(sin) \
  DO(sincos) DO(sincospi) DO(sinh) DO(sinpi) DO(sqrt) DO(tan) DO(tanh) DO(trunc)
#define NUMJIT_INTRINSIC_NAMES(DO) \
  DO(__cosf) DO(__dadd_rn) DO(__ddiv_rn) DO(__dmul_rn) DO(__dsub_rn) DO(__exp10f) DO(__expf) DO(__fadd_rn) \
  DO(__fdiv_rn) DO(__fdividef) DO(__fma_rn) DO(__fmaf_rn) DO(__fmul_rn) DO(__frcp_rn) DO(__frsqrt_rn) DO(__fsqrt_rn) \
  DO(__fsub_rn) DO(__log10f) DO(__log2f) DO(__logf) DO(__powf) DO(__saturatef) DO(__sincosf) DO(__sinf) DO(__tanf) \
  DO(fdividef)
#define NUMJIT_OWN_NAMES(DO) \
  DO(digamma) DO(gammainc) DO(log_ndtr) DO(logaddexp) DO(sinc) DO(xlogy)
// numjit.rules: end
// In a namespace of their own, so that naming a rule elsewhere does not name these with it.
namespace plain {
#define NUMJIT_USING(f) using ::numjit_standard::f;
NUMJIT_STANDARD_NAMES(NUMJIT_USING)
#undef NUMJIT_USING
NUMJIT_CUDA_NAMES(NUMJIT_CUDA)
NUMJIT_INTRINSIC_NAMES(NUMJIT_CUDA)
}  // namespace plain
using namespace plain;

// ------------------------------------------------------------------------------------ kinds of rules
// x, y and z are the operands, v is the value. A name with f computes in float.

// A derivative that is 0 whatever the tangent.
struct Flat {};
template <class R, int N, class H, class A>
NUMJIT_DUAL void chain(Dual<R, N, H>&, const A&, Flat) {}
template <class R, class S>
NUMJIT_DUAL auto as(const S& slope) {
  if constexpr (std::is_same_v<S, Flat>)
    return slope;
  else
    return static_cast<R>(slope);
}

#define NUMJIT_RULE(f, SLOPE)                        \
  template <class R, int N, class H>                          \
  NUMJIT_DUAL Dual<R, N, H> f(const Dual<R, N, H>& a) {    \
    const R x = a.v, v = f(x);                       \
    (void)x;                                         \
    Dual<R, N, H> r(v);                                 \
    chain(r, a, static_cast<R>(SLOPE));              \
    return r;                                        \
  }
#define NUMJIT_FLOAT(f, g)                                                    \
  template <class R, int N, class H>                                                   \
  NUMJIT_DUAL with_leaf<Dual<R, N, H>, float> f(const Dual<R, N, H>& a) {           \
    return g(static_cast<with_leaf<Dual<R, N, H>, float>>(a));                   \
  }
#define NUMJIT_RULES(name, SLOPE) NUMJIT_RULE(name, SLOPE) NUMJIT_FLOAT(name##f, name)

// Flat almost everywhere: the result is a constant.
#define NUMJIT_STEP(name)                               \
  template <class R, int N, class H>                             \
  NUMJIT_DUAL Dual<R, N, H> name(const Dual<R, N, H>& a) {    \
    return Dual<R, N, H>(name(a.v));                       \
  }                                                     \
  NUMJIT_FLOAT(name##f, name)
#define NUMJIT_WHOLE(name)                           \
  template <class R, int N, class H>                          \
  NUMJIT_DUAL auto name(const Dual<R, N, H>& a) {       \
    return name(a.v);                                \
  }
#define NUMJIT_WHOLES(name)                          \
  NUMJIT_WHOLE(name)                                 \
  template <class R, int N, class H>                          \
  NUMJIT_DUAL auto name##f(const Dual<R, N, H>& a) {    \
    return name(static_cast<float>(at_bottom(a)));   \
  }
template <class S>
NUMJIT_DUAL constexpr auto at_bottom(const S& s) {
  if constexpr (depth<S> > 0)
    return at_bottom(s.v);
  else
    return s;
}
#define NUMJIT_RULE2(f, SLOPE_A, SLOPE_B)                                          \
  template <class A, class B, if_dual<A, B> = 0>                                   \
  NUMJIT_DUAL auto f(const A& a, const B& b) {                                     \
    constexpr int D = top<A, B>;                                                   \
    const auto v = f(value<D>(a), value<D>(b));                                    \
    using R = std::remove_cv_t<decltype(v)>;                                       \
    const R x = static_cast<R>(value<D>(a)), y = static_cast<R>(value<D>(b));      \
    (void)x, (void)y;                                                              \
    Dual<R, directions<A, B>, home<A, B>> r(v);                                                \
    if constexpr (depth<A> == D) chain(r, a, as<R>(SLOPE_A));             \
    if constexpr (depth<B> == D) chain(r, b, as<R>(SLOPE_B));             \
    return r;                                                                      \
  }
#define NUMJIT_FLOAT2(f, g)                                                        \
  template <class A, class B, if_dual<A, B> = 0>                                   \
  NUMJIT_DUAL auto f(const A& a, const B& b) {                                     \
    return g(static_cast<with_leaf<A, float>>(a), static_cast<with_leaf<B, float>>(b)); \
  }
#define NUMJIT_RULES2(name, SLOPE_A, SLOPE_B) NUMJIT_RULE2(name, SLOPE_A, SLOPE_B) NUMJIT_FLOAT2(name##f, name)

template <class A, class B, class C>
using if_dual3 = std::enable_if_t<
    (depth<A> >= 0 && depth<B> >= 0 && depth<C> >= 0 && (depth<A> > 0 || depth<B> > 0 || depth<C> > 0)), int>;
#define NUMJIT_RULE3(f, SLOPE_A, SLOPE_B, SLOPE_C)                                 \
  template <class A, class B, class C, if_dual3<A, B, C> = 0>                      \
  NUMJIT_DUAL auto f(const A& a, const B& b, const C& c) {                         \
    constexpr int D = top<A, B> < depth<C> ? depth<C> : top<A, B>;                 \
    const auto v = f(value<D>(a), value<D>(b), value<D>(c));                       \
    using R = std::remove_cv_t<decltype(v)>;                                       \
    const R x = static_cast<R>(value<D>(a)), y = static_cast<R>(value<D>(b)), z = static_cast<R>(value<D>(c)); \
    (void)x, (void)y, (void)z;                                                     \
    Dual<R, depth<C> == D ? count<C> : directions<A, B>, wider_home<home<A, B>, home_of<C>>> r(v);                     \
    if constexpr (depth<A> == D) chain(r, a, static_cast<R>(SLOPE_A));             \
    if constexpr (depth<B> == D) chain(r, b, static_cast<R>(SLOPE_B));             \
    if constexpr (depth<C> == D) chain(r, c, static_cast<R>(SLOPE_C));             \
    return r;                                                                      \
  }
#define NUMJIT_FLOAT3(f, g)                                                        \
  template <class A, class B, class C, if_dual3<A, B, C> = 0>                      \
  NUMJIT_DUAL auto f(const A& a, const B& b, const C& c) {                         \
    return g(static_cast<with_leaf<A, float>>(a), static_cast<with_leaf<B, float>>(b), \
             static_cast<with_leaf<C, float>>(c));                                 \
  }
#define NUMJIT_RULES3(name, ...) NUMJIT_RULE3(name, __VA_ARGS__) NUMJIT_FLOAT3(name##f, name)

// ------------------------------------------------------------------------------------------ the rules

template <class R>
NUMJIT_DUAL R sign(const R& x) {
  return x > R(0) ? R(1) : x < R(0) ? R(-1) : R(0);
}
// x to the power of n, where B is the exponent's type: of a literal, mostly, which spares a second power.
template <class B, class R>
NUMJIT_DUAL R power(const R& x, const R& n) {
  if constexpr (depth<B> == 0) {
    if (n == R(1)) return x;
    if (n == R(2)) return x * x;
  }
  return pow(x, n);
}
// numjit.rules: rules
NUMJIT_RULE2(__fadd_rn, R(1), R(1))
NUMJIT_RULE2(__dadd_rn, R(1), R(1))
NUMJIT_RULE2(__fsub_rn, R(1), R(-1))
NUMJIT_RULE2(__dsub_rn, R(1), R(-1))
NUMJIT_RULE2(__fmul_rn, y, x)
NUMJIT_RULE2(__dmul_rn, y, x)
NUMJIT_RULE2(__fdiv_rn, R(1) / y, -(v / y))
NUMJIT_RULE2(__ddiv_rn, R(1) / y, -(v / y))
NUMJIT_RULE2(fdividef, R(1) / y, -(v / y))
NUMJIT_RULE2(__fdividef, R(1) / y, -(v / y))
NUMJIT_RULES3(fma, y, x, R(1))
NUMJIT_RULE3(__fmaf_rn, y, x, R(1))
NUMJIT_RULE3(__fma_rn, y, x, R(1))
NUMJIT_RULES2(fmod, R(1), -trunc(x / y))
NUMJIT_RULES2(remainder, R(1), -rint((x - v) / y))
NUMJIT_RULES2(pow, y == R(0) ? R(0) : R(y * power<B>(x, y - R(1))), x == R(0) & y >= R(0) ? R(0) : R(v * log(x)))
NUMJIT_RULE2(__powf, y == R(0) ? R(0) : R(y * power<B>(x, y - R(1))), x == R(0) & y >= R(0) ? R(0) : R(v * log(x)))
NUMJIT_RULES(exp, v)
NUMJIT_RULE(__expf, v)
NUMJIT_RULES(exp2, v * R(0.6931471805599453))
NUMJIT_RULES(exp10, v * R(2.302585092994046))
NUMJIT_RULE(__exp10f, v * R(2.302585092994046))
NUMJIT_RULES(expm1, v + R(1))
NUMJIT_RULES(log, R(1) / x)
NUMJIT_RULE(__logf, R(1) / x)
NUMJIT_RULES(log2, R(1) / x * R(1.4426950408889634))
NUMJIT_RULE(__log2f, R(1) / x * R(1.4426950408889634))
NUMJIT_RULES(log10, R(1) / x * R(0.43429448190325176))
NUMJIT_RULE(__log10f, R(1) / x * R(0.43429448190325176))
NUMJIT_RULES(log1p, R(1) / (x + R(1)))
NUMJIT_RULES(sqrt, R(0.5) / v)
NUMJIT_RULE(__fsqrt_rn, R(0.5) / v)
NUMJIT_RULES(rsqrt, v * v * v * R(-0.5))
NUMJIT_RULE(__frsqrt_rn, v * v * v * R(-0.5))
NUMJIT_RULES(cbrt, R(1) / (v * v * R(3)))
NUMJIT_RULES(rcbrt, v * v * v * v / R(-3))
NUMJIT_RULE(__frcp_rn, -(v * v))
NUMJIT_RULES2(hypot, x / v, y / v)
NUMJIT_RULES2(rhypot, -(x * v * v * v), -(y * v * v * v))
NUMJIT_RULES3(norm3d, x / v, y / v, z / v)
NUMJIT_RULES(sin, cos(x))
NUMJIT_RULE(__sinf, __cosf(x))
NUMJIT_RULES(cos, -sin(x))
NUMJIT_RULE(__cosf, -__sinf(x))
NUMJIT_RULES(tan, v * v + R(1))
NUMJIT_RULE(__tanf, v * v + R(1))
NUMJIT_RULES(asin, rsqrt((R(1) - x) * (R(1) + x)))
NUMJIT_RULES(acos, -rsqrt((R(1) - x) * (R(1) + x)))
NUMJIT_RULES(atan, R(1) / (x * x + R(1)))
NUMJIT_RULES(sinh, cosh(x))
NUMJIT_RULES(cosh, sinh(x))
NUMJIT_RULES(tanh, R(1) - v * v)
NUMJIT_RULES(asinh, R(1) / hypot(x, R(1)))
template <class R>
NUMJIT_DUAL R slope_of_acosh(const R& x) {
  const R t0 = fabs(x);
  return rsqrt((t0 - R(1)) * (t0 + R(1)));
}
NUMJIT_RULES(acosh, slope_of_acosh(x))
NUMJIT_RULES(atanh, R(1) / ((R(1) - x) * (R(1) + x)))
NUMJIT_RULES(sinpi, cospi(x) * R(3.141592653589793))
NUMJIT_RULES(cospi, sinpi(x) * R(-3.141592653589793))
template <class R>
NUMJIT_DUAL R slope_of_atan2_by_x(const R& x, const R& y) {
  const R t0 = hypot(y, x);
  return t0 == R(0) ? R(0) : R(y / t0 / t0);
}
template <class R>
NUMJIT_DUAL R slope_of_atan2_by_y(const R& x, const R& y) {
  const R t0 = hypot(y, x);
  return t0 == R(0) ? R(0) : R(-x / t0 / t0);
}
NUMJIT_RULES2(atan2, slope_of_atan2_by_x(x, y), slope_of_atan2_by_y(x, y))
NUMJIT_RULES(erf, exp(-(x * x)) * R(1.1283791670955126))
NUMJIT_RULES(erfc, exp(-(x * x)) * R(-1.1283791670955126))
NUMJIT_RULES(erfinv, exp(v * v) * R(0.8862269254527579))
NUMJIT_RULES(erfcinv, exp(v * v) * R(-0.8862269254527579))
NUMJIT_RULES(erfcx, x * v * R(2) - R(1.1283791670955126))
NUMJIT_RULES(normcdf, exp(x * x * R(-0.5)) * R(0.3989422804014327))
NUMJIT_RULES(normcdfinv, exp(v * v * R(0.5)) * R(2.5066282746310002))
NUMJIT_STEP(floor)
NUMJIT_STEP(ceil)
NUMJIT_STEP(trunc)
NUMJIT_STEP(rint)
NUMJIT_STEP(nearbyint)
NUMJIT_STEP(round)
NUMJIT_STEP(logb)
NUMJIT_WHOLES(ilogb)
NUMJIT_WHOLES(llrint)
NUMJIT_WHOLES(llround)
NUMJIT_WHOLES(lrint)
NUMJIT_WHOLES(lround)
NUMJIT_RULES(fabs, sign(x))
NUMJIT_RULE(abs, sign(x))
NUMJIT_RULES2(copysign, sign(x) * copysign(R(1), y), Flat())
NUMJIT_WHOLE(signbit)
NUMJIT_WHOLE(isnan)
NUMJIT_WHOLE(isinf)
NUMJIT_WHOLE(isfinite)
// numjit.rules: end
// Of numjit's own functions, which values.h has; and of those whose derivative takes one.
#ifdef NUMJIT_VALUES
namespace plain {
#define NUMJIT_USING(f) using ::numjit_scope::numjit::f;
NUMJIT_OWN_NAMES(NUMJIT_USING)
#undef NUMJIT_USING
#define NUMJIT_USING(f) using ::numjit_standard::f;
NUMJIT_LATER_NAMES(NUMJIT_USING)
#undef NUMJIT_USING
}  // namespace plain
// numjit.rules: own rules
template <class R>
NUMJIT_DUAL R slope_of_sinc(const R& x) {
  const R t0 = x * R(3.141592653589793);
  const R t1 = t0 * t0;
  return fabs(t0) < R(1) ? R(((((((((((t1 * R(0) * t1 + R(3.9145882126782523e-19)) * t1 + R(-1.4797143443923793e-16)) *
      t1 + R(4.498331606952833e-14)) * t1 + R(-1.0706029224547743e-11)) * t1 + R(1.9270852604185937e-09)) * t1 +
      R(-2.505210838544172e-07)) * t1 + R(2.2045855379188714e-05)) * t1 + R(-0.0011904761904761906)) * t1 +
      R(0.03333333333333333)) * t1 + R(-0.3333333333333333)) * t0 * R(3.141592653589793)) : R((cos(t0) - sin(t0) / t0) /
      x);
}
NUMJIT_RULE(sinc, slope_of_sinc(x))
NUMJIT_RULE(log_ndtr, x < R(0) ? R(R(0.7978845608028654) / erfcx(x * R(-0.7071067811865476))) : R(exp(x * x * R(-0.5)
    - v) * R(0.3989422804014327)))
NUMJIT_RULES(tgamma, v * digamma(x))
NUMJIT_RULES(lgamma, digamma(x))
template <class R>
NUMJIT_DUAL R slope_of_digamma(const R& x) {
  const bool t0 = x < R(0.5);
  const R t1 = sin((x - rint(x)) * R(3.141592653589793));
  const R t2 = t0 ? R(R(1) - x) : R(x);
  const R t3 = t2 + R(1);
  const R t4 = t3 + R(1);
  const R t5 = t4 + R(1);
  const R t6 = t5 + R(1);
  const R t7 = t6 + R(1);
  const R t8 = t7 + R(1);
  const R t9 = R(1) / (t8 * t8);
  const R t10 = R(1) / (t2 * t2) + R(1) / (t3 * t3) + R(1) / (t4 * t4) + R(1) / (t5 * t5) + R(1) / (t6 * t6) + R(1) /
      (t7 * t7) + (R(1) + R(0.5) / t8 + t9 * ((((((t9 * R(1.1666666666666667) - R(0.2531135531135531)) * t9 +
      R(0.07575757575757576)) * t9 + R(-0.03333333333333333)) * t9 + R(0.023809523809523808)) * t9 +
      R(-0.03333333333333333)) * t9 + R(0.16666666666666666))) / t8;
  return t0 ? R(R(9.869604401089358) / (t1 * t1) - t10) : R(t10);
}
NUMJIT_RULE(digamma, slope_of_digamma(x))
NUMJIT_RULE2(gammainc, R(std::numeric_limits<double>::quiet_NaN()), exp(xlogy(x - R(1), y) - y - lgamma(x)))
NUMJIT_RULE2(logaddexp, R(1) / (R(1) + exp(y - x)), R(1) / (R(1) + exp(x - y)))
NUMJIT_RULE2(xlogy, x == R(0) & y <= R(0) ? R(0) : R(log(y)), x / y)
// numjit.rules: end
#endif

// ------------------------------------------------------------------------------------------- choices

// The partials of one of two, half of each where they tie.
template <class R, class Q, int N>
NUMJIT_DUAL void keep(Partials<R, N>& r, const Partials<Q, N>& a, bool whole, bool half) {
  const R d = static_cast<R>(a.head.d);
  add(r.head, half ? R(R(0.5) * d) : d, a.head.on & (whole | half));
  if constexpr (N > 1) keep(r.tail, a.tail, whole, half);
}
template <class R, int N, class H, class A>
NUMJIT_DUAL void keep(Dual<R, N, H>& r, const A& a, bool whole, bool half) {
  if constexpr (depth<A> == depth<Dual<R, N, H>>) keep(r.p, a.p, whole, half);
}
// Where the operands tie, they share the derivative or the first has it, as torch has it of the same name.
#define NUMJIT_PICK(f, VALUE, SECOND, SHARES)                                              \
  template <class A, class B, if_dual<A, B> = 0>                                   \
  NUMJIT_DUAL auto f(const A& a, const B& b) {                                     \
    constexpr int D = top<A, B>;                                                   \
    using R = std::remove_cv_t<decltype(value<D>(a) + value<D>(b))>;               \
    const R x = static_cast<R>(value<D>(a)), y = static_cast<R>(value<D>(b));      \
    Dual<R, directions<A, B>, home<A, B>> r(static_cast<R>(VALUE));                            \
    const bool tie = SHARES && x == y, second = SECOND;                            \
    keep(r, a, !tie & !second, tie);                                               \
    keep(r, b, !tie & second, tie);                                                \
    return r;                                                                      \
  }
NUMJIT_PICK(fmax, fmax(x, y), !(x >= y || y != y), false)
NUMJIT_PICK(fmin, fmin(x, y), !(x <= y || y != y), false)
NUMJIT_FLOAT2(fmaxf, fmax)
NUMJIT_FLOAT2(fminf, fmin)
// CUDA's max and min are fmax and fmin; std::max and std::min differ from them in NaN only.
NUMJIT_PICK(max, (x < y || x != x ? y : x), x < y || x != x, true)
NUMJIT_PICK(min, (y < x || x != x ? y : x), y < x || x != x, true)
NUMJIT_PICK(std_max, (x < y ? y : x), x < y, true)
NUMJIT_PICK(std_min, (y < x ? y : x), y < x, true)
#undef NUMJIT_PICK
template <class A, class B, if_dual<A, B> = 0>
NUMJIT_DUAL auto fdim(const A& a, const B& b) {
  constexpr int D = top<A, B>;
  auto r = a - b;
  const auto z = fdim(value<D>(a), value<D>(b));
  using R = std::remove_cv_t<decltype(z)>;
  return value<D>(a) <= value<D>(b) ? Dual<R, directions<A, B>, home<A, B>>(z) : Dual<R, directions<A, B>, home<A, B>>(r);
}
NUMJIT_FLOAT2(fdimf, fdim)
template <class R, int N, class H, class L, class U, std::enable_if_t<(depth<L> >= 0 && depth<U> >= 0), int> = 0>
NUMJIT_DUAL constexpr Dual<R, N, H> clamp(const Dual<R, N, H>& x, const L& low, const U& high) {
  return x < low ? Dual<R, N, H>(low) : high < x ? Dual<R, N, H>(high) : x;
}
// Those of namespace std, which the functions of the library for any type must not be preferred to.
namespace standard {
template <class S>
using if_number = std::enable_if_t<depth<S> == 0, int>;
#define NUMJIT_PAIR(name)                                                                     \
  template <class R, int N, class H>                                                          \
  NUMJIT_DUAL Dual<R, N, H> name(const Dual<R, N, H>& a, const Dual<R, N, H>& b) {            \
    return std_##name(a, b);                                                                  \
  }                                                                                           \
  template <class R, int N, class H, class S, if_number<S> = 0>                               \
  NUMJIT_DUAL auto name(const Dual<R, N, H>& a, const S& b) {                                 \
    return std_##name(a, b);                                                                  \
  }                                                                                           \
  template <class S, class R, int N, class H, if_number<S> = 0>                               \
  NUMJIT_DUAL auto name(const S& a, const Dual<R, N, H>& b) {                                 \
    return std_##name(a, b);                                                                  \
  }
NUMJIT_PAIR(max)
NUMJIT_PAIR(min)
#undef NUMJIT_PAIR
template <class R, int N, class H>
NUMJIT_DUAL constexpr Dual<R, N, H> clamp(
    const Dual<R, N, H>& x, const Dual<R, N, H>& low, const Dual<R, N, H>& high) {
  return x < low ? low : high < x ? high : x;
}
template <class R, int N, class H, class S, if_number<S> = 0>
NUMJIT_DUAL constexpr Dual<R, N, H> clamp(const Dual<R, N, H>& x, const S& low, const S& high) {
  return ::numjit_dual::clamp(x, low, high);
}
template <class R, int N, class H, class L, class U,
          std::enable_if_t<(depth<L> >= 0 && depth<U> >= 0 && !std::is_same_v<L, U>), int> = 0>
NUMJIT_DUAL constexpr Dual<R, N, H> clamp(const Dual<R, N, H>& x, const L& low, const U& high) {
  return ::numjit_dual::clamp(x, low, high);
}
}  // namespace standard
template <class R, int N, class H>
NUMJIT_DUAL with_leaf<Dual<R, N, H>, float> __saturatef(const Dual<R, N, H>& a) {
  return clamp(static_cast<with_leaf<Dual<R, N, H>, float>>(a), 0.0f, 1.0f);
}

// ---------------------------------------------------------------------------- integers and pointers

// Scaling by a power of two is linear.
#define NUMJIT_SCALE(name, I)                                                      \
  template <class R, int N, class H>                                                        \
  NUMJIT_DUAL Dual<R, N, H> name(const Dual<R, N, H>& a, I n) {                          \
    Dual<R, N, H> r(name(a.v, n));                                                    \
    each(r.p, a.p, [n](Partial<R>& sum, const Partial<R>& part) {                  \
      add(sum, static_cast<R>(name(part.d, n)), part.on);                           \
    });                                                                            \
    return r;                                                                      \
  }                                                                                \
  template <class R, int N, class H>                                                        \
  NUMJIT_DUAL auto name##f(const Dual<R, N, H>& a, I n) {                             \
    return name(static_cast<with_leaf<Dual<R, N, H>, float>>(a), n);                  \
  }
NUMJIT_SCALE(ldexp, int)
NUMJIT_SCALE(scalbn, int)
NUMJIT_SCALE(scalbln, long)
#undef NUMJIT_SCALE
template <class R, int N, class H>
NUMJIT_DUAL Dual<R, N, H> frexp(const Dual<R, N, H>& a, int* exponent) {
  frexp(a.v, exponent);
  return ldexp(a, -*exponent);
}
template <class R, int N, class H>
NUMJIT_DUAL auto frexpf(const Dual<R, N, H>& a, int* exponent) {
  return frexp(static_cast<with_leaf<Dual<R, N, H>, float>>(a), exponent);
}
template <class R, int N, class H>
NUMJIT_DUAL Dual<R, N, H> modf(const Dual<R, N, H>& a, Dual<R, N, H>* whole) {
  const Dual<R, N, H> kept = a;
  R part = R(0);
  Dual<R, N, H> r(modf(kept.v, &part));
  *whole = Dual<R, N, H>(part);
  chain(r, kept, R(1));
  return r;
}
template <class R, int N, class H>
NUMJIT_DUAL Dual<R, N, H> modff(const Dual<R, N, H>& a, Dual<R, N, H>* whole) {
  return modf(a, whole);
}
#define NUMJIT_SINCOS(f, SIN, COS)                                                  \
  template <class R, int N, class H>                                                         \
  NUMJIT_DUAL void f(const Dual<R, N, H>& a, Dual<R, N, H>* s, Dual<R, N, H>* c) {           \
    const Dual<R, N, H> kept = a;                                                      \
    *s = SIN(kept);                                                                 \
    *c = COS(kept);                                                                 \
  }
NUMJIT_SINCOS(sincos, sin, cos)
NUMJIT_SINCOS(sincospi, sinpi, cospi)
NUMJIT_SINCOS(sincosf, sinf, cosf)
NUMJIT_SINCOS(sincospif, sinpif, cospif)
NUMJIT_SINCOS(__sincosf, __sinf, __cosf)
#undef NUMJIT_SINCOS

// Functions that have no derivative here: said at the call, instead of a conversion that drops it.
#define NUMJIT_REFUSED(DO)                                                                                    \
  DO(nextafter) DO(remquo) DO(j0) DO(j1) DO(jn) DO(y0) DO(y1) DO(yn) DO(cyl_bessel_i0) DO(cyl_bessel_i1)      \
  DO(j0f) DO(j1f) DO(y0f) DO(y1f) DO(nextafterf) DO(norm4d) DO(rnorm3d) DO(rnorm4d) DO(nexttoward)            \
  DO(__float_as_int) DO(__float_as_uint) DO(__double_as_longlong)
template <class A, class... Rest>
constexpr bool any_dual = depth<A> > 0 || any_dual<Rest...>;
template <class A>
constexpr bool any_dual<A> = (depth<A> > 0);
#define NUMJIT_REFUSE(f)                                                                            \
  template <class A, class... Rest, std::enable_if_t<any_dual<A, Rest...>, int> = 0>                \
  auto f(const A& a, const Rest&...) {                                                              \
    static_assert(never<A>, "no derivative for " #f "; write it with numjit.differentiable");       \
    return a;                                                                                       \
  }
NUMJIT_REFUSED(NUMJIT_REFUSE)
#undef NUMJIT_REFUSE

#undef NUMJIT_RULE
#undef NUMJIT_RULES
#undef NUMJIT_RULE2
#undef NUMJIT_RULES2
#undef NUMJIT_RULE3
#undef NUMJIT_RULES3
#undef NUMJIT_STEP
#undef NUMJIT_WHOLE
#undef NUMJIT_WHOLES
#undef NUMJIT_FLOAT
#undef NUMJIT_FLOAT2
#undef NUMJIT_FLOAT3
}  // namespace numjit_dual

namespace numjit_standard {
#define NUMJIT_USING(f) using ::numjit_dual::f;
#ifndef __CUDACC_RTC__
using ::std::fma;
using ::std::frexp;
using ::std::ilogb;
using ::std::ldexp;
using ::std::llrint;
using ::std::llround;
using ::std::lrint;
using ::std::lround;
using ::std::modf;
using ::std::scalbln;
using ::std::scalbn;
#endif
NUMJIT_STANDARD_NAMES(NUMJIT_USING)
#ifdef NUMJIT_VALUES
NUMJIT_LATER_NAMES(NUMJIT_USING)
#endif
NUMJIT_USING(nextafter)
NUMJIT_USING(standard::clamp)
NUMJIT_USING(standard::max)
NUMJIT_USING(standard::min)
}  // namespace numjit_standard
#ifdef NUMJIT_VALUES
namespace numjit_scope {
namespace numjit {
NUMJIT_OWN_NAMES(NUMJIT_USING)
}
}  // namespace numjit_scope
NUMJIT_LATER_NAMES(NUMJIT_USING)
#endif
NUMJIT_STANDARD_NAMES(NUMJIT_USING)
NUMJIT_CUDA_NAMES(NUMJIT_USING)
NUMJIT_INTRINSIC_NAMES(NUMJIT_USING)
NUMJIT_REFUSED(NUMJIT_USING)
#undef NUMJIT_USING
#define NUMJIT_USING(name) using ::numjit_dual::name##f;
NUMJIT_FLOAT_NAMES(NUMJIT_USING)
#ifdef NUMJIT_VALUES
NUMJIT_LATER_NAMES(NUMJIT_USING)
#endif
#undef NUMJIT_USING
#undef NUMJIT_FLOAT_NAMES
#undef NUMJIT_STANDARD_NAMES
#undef NUMJIT_OWN_NAMES
#undef NUMJIT_LATER_NAMES
#undef NUMJIT_CUDA_NAMES
#undef NUMJIT_INTRINSIC_NAMES
#undef NUMJIT_REFUSED
