// The host's stand-ins: CUDA's built-in functions for functors that run on the CPU, and division that
// answers 0 where the processor would stop the process.
#define __device__
#define __host__
#define __global__
#define __constant__ static
// `inline` may stand beside it.
#define __forceinline__ __attribute__((always_inline))
// Empty, since the standard library's headers write __attribute__((__noinline__)).
#define __noinline__
#ifndef __restrict__
#define __restrict__ __restrict
#endif

namespace numjit_host {
namespace std = ::numjit_standard;

template <class A, class B>
constexpr bool whole = std::is_integral_v<A>&& std::is_integral_v<B>;

// `a / b` in the user's text is compiled as `a * numjit_over * b`, which has the same precedence.
struct Over {};
struct Modulo {};
template <class A>
struct Dividend {
  A value;
};
template <class A>
struct ModuloDividend {
  A value;
};
template <class A>
constexpr Dividend<const A&> operator*(const A& a, Over) {
  return {a};
}
template <class A>
constexpr ModuloDividend<const A&> operator*(const A& a, Modulo) {
  return {a};
}
template <class A, class B>
constexpr decltype(auto) divide(const A& a, const B& b) {
  if constexpr (whole<A, B>) {
    using C = decltype(a / b);
    const C divisor = static_cast<C>(b);
    if (divisor == C(0)) return C(0);
    if constexpr (std::is_signed_v<C>)
      if (divisor == C(-1)) return static_cast<C>(std::make_unsigned_t<C>(0) - static_cast<std::make_unsigned_t<C>>(a));
    return static_cast<C>(static_cast<C>(a) / divisor);
  } else {
    return a / b;
  }
}
template <class A, class B>
constexpr decltype(auto) modulo(const A& a, const B& b) {
  if constexpr (whole<A, B>) {
    using C = decltype(a % b);
    const C divisor = static_cast<C>(b);
    if (divisor == C(0)) return C(0);
    if constexpr (std::is_signed_v<C>)
      if (divisor == C(-1)) return C(0);
    return static_cast<C>(static_cast<C>(a) % divisor);
  } else {
    return a % b;
  }
}
template <class A, class B>
constexpr decltype(auto) operator*(Dividend<const A&> a, const B& b) {
  return divide(a.value, b);
}
template <class A, class B>
constexpr decltype(auto) operator*(ModuloDividend<const A&> a, const B& b) {
  return modulo(a.value, b);
}
// `a /= b` is compiled as `a /= numjit_divisor = b`: the assignment takes all that stands to its right.
template <class B>
struct Divisor {
  const B& value;
};
struct DivisorMaker {
  template <class B>
  constexpr Divisor<B> operator=(const B& b) const {
    return {b};
  }
};
template <class A, class B>
constexpr A& operator/=(A& a, Divisor<B> b) {
  if constexpr (whole<A, B>)
    return a = static_cast<A>(divide(a, b.value));
  else
    return a /= b.value;
}
template <class A, class B>
constexpr A& operator%=(A& a, Divisor<B> b) {
  if constexpr (whole<A, B>)
    return a = static_cast<A>(modulo(a, b.value));
  else
    return a %= b.value;
}
}  // namespace numjit_host
static constexpr ::numjit_host::Over numjit_over{};
static constexpr ::numjit_host::Modulo numjit_modulo{};
static constexpr ::numjit_host::DivisorMaker numjit_divisor{};

namespace numjit_scope {
template <class A, class B>
constexpr std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, decltype(A() + B())> max(A a, B b) {
  using C = decltype(A() + B());
  const C x = static_cast<C>(a), y = static_cast<C>(b);
  return x < y || x != x ? y : x;
}
template <class A, class B>
constexpr std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, decltype(A() + B())> min(A a, B b) {
  using C = decltype(A() + B());
  const C x = static_cast<C>(a), y = static_cast<C>(b);
  return y < x || x != x ? y : x;
}
template <class R>
using numjit_real = std::conditional_t<std::is_same_v<R, float>, float, double>;
#define NUMJIT_ONE(name)                                                            \
  template <class S>                                                                \
  inline std::enable_if_t<std::is_arithmetic_v<S>, numjit_real<S>> name(S x) {      \
    return ::numjit_special::name(static_cast<numjit_real<S>>(x));                  \
  }                                                                                 \
  inline float name##f(float x) { return ::numjit_special::name(x); }
NUMJIT_ONE(rsqrt)
NUMJIT_ONE(rcbrt)
NUMJIT_ONE(exp10)
NUMJIT_ONE(sinpi)
NUMJIT_ONE(cospi)
NUMJIT_ONE(erfinv)
NUMJIT_ONE(erfcx)
NUMJIT_ONE(erfcinv)
NUMJIT_ONE(normcdf)
NUMJIT_ONE(normcdfinv)
NUMJIT_ONE(cyl_bessel_i0)
NUMJIT_ONE(cyl_bessel_i1)
#undef NUMJIT_ONE

inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return exp10(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrt(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpi(x), *c = cospi(x); }
inline void sincos(double x, double* s, double* c) { *s = std::sin(x), *c = std::cos(x); }
inline void sincos(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }
inline void sincosf(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }
inline void __sincosf(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }
inline double norm3d(double x, double y, double z) { return std::hypot(std::hypot(x, y), z); }
inline float norm3df(float x, float y, float z) { return std::hypot(std::hypot(x, y), z); }
inline double rhypot(double x, double y) { return 1 / std::hypot(x, y); }
inline float rhypotf(float x, float y) { return 1 / std::hypot(x, y); }

template <class To, class From>
inline To numjit_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  ::std::memcpy(&to, &from, sizeof to);
  return to;
}
inline int __float_as_int(float x) { return numjit_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return numjit_bits<unsigned>(x); }
inline float __int_as_float(int x) { return numjit_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return numjit_bits<float>(x); }
inline long long __double_as_longlong(double x) { return numjit_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return numjit_bits<double>(x); }
inline int __float2int_rn(float x) { return int(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline int __float2int_rd(float x) { return int(std::floor(x)); }
inline int __float2int_ru(float x) { return int(std::ceil(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
inline unsigned __sad(int x, int y, unsigned z) { return z + (x < y ? unsigned(y) - x : unsigned(x) - y); }
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned r = 0;
  for (int k = 0; k < 4; ++k) {
    // Three bits select, as CUDA's documentation has it; a GPU does not look at the fourth.
    const unsigned which = selector >> (4 * k) & 7u;
    r |= (unsigned(both >> (8 * which)) & 255u) << (8 * k);
  }
  return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((((unsigned long long)high << 32 | low) << (shift & 31u)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31u));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32u ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32u ? high : __funnelshift_r(low, high, shift);
}
#define NUMJIT_VECTOR(name, T)                                                                 \
  struct name##1 {                                                                             \
    T x;                                                                                       \
  };                                                                                           \
  struct alignas(2 * sizeof(T)) name##2 {                                                      \
    T x, y;                                                                                    \
  };                                                                                           \
  struct name##3 {                                                                             \
    T x, y, z;                                                                                 \
  };                                                                                           \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {                            \
    T x, y, z, w;                                                                              \
  };                                                                                           \
  inline name##1 make_##name##1(T x) { return {x}; }                                           \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                   \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                           \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
NUMJIT_VECTOR(char, signed char)
NUMJIT_VECTOR(uchar, unsigned char)
NUMJIT_VECTOR(short, short)
NUMJIT_VECTOR(ushort, unsigned short)
NUMJIT_VECTOR(int, int)
NUMJIT_VECTOR(uint, unsigned)
NUMJIT_VECTOR(long, long)
NUMJIT_VECTOR(ulong, unsigned long)
NUMJIT_VECTOR(longlong, long long)
NUMJIT_VECTOR(ulonglong, unsigned long long)
NUMJIT_VECTOR(float, float)
NUMJIT_VECTOR(double, double)
#undef NUMJIT_VECTOR
template <class T>
inline T __ldg(const T* x) {
  return *x;
}
}  // namespace numjit_scope

// CUDA has these at global scope too, where texts written for it look for them (`::min`). Templates only:
// beside a function of the C library of the same name they stand back.
using ::numjit_scope::cospi;
using ::numjit_scope::cyl_bessel_i0;
using ::numjit_scope::cyl_bessel_i1;
using ::numjit_scope::erfcinv;
using ::numjit_scope::erfcx;
using ::numjit_scope::erfinv;
using ::numjit_scope::exp10;
using ::numjit_scope::max;
using ::numjit_scope::min;
using ::numjit_scope::normcdf;
using ::numjit_scope::normcdfinv;
using ::numjit_scope::rcbrt;
using ::numjit_scope::rsqrt;
using ::numjit_scope::sinpi;
