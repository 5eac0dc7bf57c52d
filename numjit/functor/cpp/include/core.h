// What every functor sees without including anything: integers of fixed width, std:: math, limits and traits,
// constants. Follows device.h (NVRTC) or library.h (the host).
// What is left out of programs that do not use it is told in device.h; lines of one function are left out, too.
//
//   numjit_standard   what `std` means inside a functor (see numjit/functor/cpp/source.py)
//   numjit_scope      the namespace around the user's own, which holds unqualified names
#ifndef CUDART_INF_F
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_MIN_DENORM_F 0x1p-149f
#define CUDART_MAX_NORMAL_F 0x1.fffffep127f
#define CUDART_NEG_ZERO_F (-0.0f)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_PI_F 3.141592654f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_INF HUGE_VAL
#define CUDART_NAN (static_cast<double>(NAN))
#define CUDART_MIN_DENORM 0x1p-1074
#define CUDART_MAX_NORMAL 0x1.fffffffffffffp1023
#define CUDART_NEG_ZERO (-0.0)
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_SQRT_HALF 7.0710678118654757e-1
#define CUDART_SQRT_TWO 1.4142135623730951e+0
#define CUDART_L2E 1.4426950408889634e+0
#define CUDART_LN2 6.9314718055994529e-1
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_PIO2 1.5707963267948966e+0
#define CUDART_PIO4 7.8539816339744828e-1
#define CUDART_2_OVER_PI 6.3661977236758138e-1
#endif
NUMJIT_UNARY(acos)
NUMJIT_UNARY(acosh)
NUMJIT_UNARY(asin)
NUMJIT_UNARY(asinh)
NUMJIT_UNARY(atan)
NUMJIT_UNARY(atanh)
NUMJIT_UNARY(cbrt)
NUMJIT_UNARY(ceil)
NUMJIT_UNARY(cos)
NUMJIT_UNARY(cosh)
NUMJIT_UNARY(erf)
NUMJIT_UNARY(erfc)
NUMJIT_UNARY(exp)
NUMJIT_UNARY(exp2)
NUMJIT_UNARY(expm1)
NUMJIT_UNARY(fabs)
NUMJIT_UNARY(floor)
NUMJIT_UNARY(lgamma)
NUMJIT_UNARY(log)
NUMJIT_UNARY(log10)
NUMJIT_UNARY(log1p)
NUMJIT_UNARY(log2)
NUMJIT_UNARY(logb)
NUMJIT_UNARY(nearbyint)
NUMJIT_UNARY(rint)
NUMJIT_UNARY(round)
NUMJIT_UNARY(sin)
NUMJIT_UNARY(sinh)
NUMJIT_UNARY(sqrt)
NUMJIT_UNARY(tan)
NUMJIT_UNARY(tanh)
NUMJIT_UNARY(tgamma)
NUMJIT_UNARY(trunc)
NUMJIT_BINARY(atan2)
NUMJIT_BINARY(copysign)
NUMJIT_BINARY(fdim)
NUMJIT_BINARY(fmax)
NUMJIT_BINARY(fmin)
NUMJIT_BINARY(fmod)
NUMJIT_BINARY(hypot)
NUMJIT_BINARY(nextafter)
NUMJIT_BINARY(pow)
NUMJIT_BINARY(remainder)
NUMJIT_TEST(isfinite)
NUMJIT_TEST(isinf)
NUMJIT_TEST(isnan)
NUMJIT_TEST(signbit)

#ifdef __CUDACC_RTC__
using ::abs;
using ::fma;
using ::frexp;
using ::ilogb;
using ::ldexp;
using ::llrint;
using ::llround;
using ::lrint;
using ::lround;
using ::modf;
using ::remquo;
using ::scalbln;
using ::scalbn;
//@ fma
template <class A, class B, class C>
enable_if_t<is_arithmetic_v<A> && is_arithmetic_v<B> && is_arithmetic_v<C> && !(is_same_v<A, float> && is_same_v<B, float> && is_same_v<C, float>), double>
fma(A x, B y, C z) {
  return ::fma(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z));
}
//@
#else
using ::std::abs;
#endif
//@ abs
// Standard C++ leaves abs of an unsigned type of int's width or more ambiguous.
template <class U>
constexpr enable_if_t<is_unsigned_v<U> && (sizeof(U) >= sizeof(int)), U> abs(U x) {
  return x;
}
//@

// Of C++20, for texts that use them all the same.
//@ bit_cast
template <class To, class From>
constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "std::bit_cast is of types of one size");
  return __builtin_bit_cast(To, from);
}
//@
//@ lerp
template <class A, class B, class C, class R = decltype(A() + B() + C() + 1.0f)>
constexpr enable_if_t<is_arithmetic_v<A> && is_arithmetic_v<B> && is_arithmetic_v<C>, R> lerp(A from, B to, C part) {
  const R a = static_cast<R>(from), b = static_cast<R>(to), t = static_cast<R>(part);
  if ((a <= 0 && b >= 0) || (a >= 0 && b <= 0)) return t * b + (1 - t) * a;
  if (t == 1) return b;
  const R x = a + t * (b - a);
  return (t > 1) == (b > a) ? (b < x ? x : b) : (x < b ? x : b);
}
//@

//@ numjit_code
// What the return type of a functor is, for `auto`: the kind in the hundreds, the bytes below.
template <class T>
struct numjit_code {
  static constexpr int value = !is_arithmetic_v<T>      ? 0
                               : is_same_v<T, bool>     ? 100 + sizeof(T)
                               : is_floating_point_v<T> ? 400 + sizeof(T)
                               : is_signed_v<T>         ? 200 + sizeof(T)
                                                        : 300 + sizeof(T);
};
//@

}  // namespace numjit_standard
#undef NUMJIT_UNARY
#undef NUMJIT_BINARY
#undef NUMJIT_TEST

namespace numjit_scope {
namespace std {
using namespace ::numjit_standard;
}
// A parameter of this type receives the element's own number; numjit/functor/cpp/raw.py adds numjit::raw.
namespace numjit {
using index = long long;
}
}  // namespace numjit_scope
namespace numjit = ::numjit_scope::numjit;  // for texts that write `::numjit::index`
namespace numjit_scope {
#define NUMJIT_EACH(DO)                                                                                            \
  DO(acos) DO(acosh) DO(asin) DO(asinh) DO(atan) DO(atanh) DO(cbrt) DO(ceil) DO(cos) DO(cosh) DO(erf) DO(erfc)     \
  DO(exp) DO(exp2) DO(expm1) DO(fabs) DO(floor) DO(lgamma) DO(log) DO(log10) DO(log1p) DO(log2) DO(logb)           \
  DO(nearbyint) DO(rint) DO(round) DO(sin) DO(sinh) DO(sqrt) DO(tan) DO(tanh) DO(tgamma) DO(trunc) DO(atan2)       \
  DO(copysign) DO(fdim) DO(fmax) DO(fmin) DO(fmod) DO(hypot) DO(nextafter) DO(pow) DO(remainder) DO(isfinite)      \
  DO(isinf) DO(isnan) DO(signbit) DO(abs) DO(fma) DO(frexp) DO(ilogb) DO(ldexp) DO(llrint) DO(llround) DO(lrint)   \
  DO(lround) DO(modf) DO(remquo) DO(scalbln) DO(scalbn) DO(int8_t) DO(uint8_t) DO(int16_t) DO(uint16_t)            \
  DO(int32_t) DO(uint32_t) DO(int64_t) DO(uint64_t) DO(intptr_t) DO(uintptr_t) DO(ptrdiff_t)
#define NUMJIT_USING(name) using ::numjit_standard::name;
NUMJIT_EACH(NUMJIT_USING)
#undef NUMJIT_EACH
#undef NUMJIT_USING

#ifdef __CUDACC_RTC__
//@ min max
using ::max;
using ::min;
#define NUMJIT_MIXED(f)                                                                                          \
  template <class A, class B>                                                                                    \
  std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && !std::is_same_v<A, B>, decltype(A() + B())> \
  f(A a, B b) {                                                                                                  \
    using C = decltype(A() + B());                                                                               \
    return ::f(static_cast<C>(a), static_cast<C>(b));                                                            \
  }
NUMJIT_MIXED(max)
NUMJIT_MIXED(min)
#undef NUMJIT_MIXED
//@
#endif
}  // namespace numjit_scope
