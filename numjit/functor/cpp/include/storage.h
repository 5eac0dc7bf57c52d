// How the host reads and writes stored elements, and how devices read those of raw operands: conversions
// between storage and compute types.
// Rounding is to nearest, ties to even, once, in integer code without branches that compilers vectorise.
namespace numjit_storage {
namespace std = ::numjit_standard;

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

template <class To, class From>
inline To bits(From from) {
#ifdef __CUDACC_RTC__
  return __builtin_bit_cast(To, from);
#else
  To to;
  ::std::memcpy(&to, &from, sizeof to);
  return to;
#endif
}

// Storage of element types that C++ has no type for.
struct Bool {};
struct Half {};
struct Bfloat {};
struct E4m3 {};
struct E5m2 {};
template <class R>
struct Complex {};

inline float half_to_float(u16 h) {
#ifdef __CUDACC_RTC__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  const u32 sign = u32(h & 0x8000u) << 16, magnitude = u32(h & 0x7fffu) << 13;
  // 2^112 moves the exponent's bias from 15 to 127, subnormals included; infinities and NaN are set apart.
  const float scaled = bits<float>(magnitude) * 0x1p112f;
  const u32 special = magnitude | 0x7f800000u;
  return bits<float>(sign | (magnitude >= 0x0f800000u ? special : bits<u32>(scaled)));
#endif
}
inline u16 float_to_half(float x) {
  const u32 whole_bits = bits<u32>(x), sign = whole_bits >> 16 & 0x8000u, a = whole_bits & 0x7fffffffu;
  // Subnormal results: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
  const u32 small = bits<u32>(bits<float>(a) + 0.5f) - 0x3f000000u;
  const u32 normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  const u32 finite = a < 0x38800000u ? small : normal;
  const u32 large = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return u16(sign | (a >= 0x47800000u ? large : finite));
}
inline float bfloat_to_float(u16 b) { return bits<float>(u32(b) << 16); }
inline u16 float_to_bfloat(float x) {
  const u32 a = bits<u32>(x);
  const u32 rounded = (a + 0x7fffu + (a >> 16 & 1u)) >> 16;
  return u16((a & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
inline float e5m2_to_float(u8 e) { return half_to_float(u16(u16(e) << 8)); }
inline u8 float_to_e5m2(float x) {
  const u32 whole_bits = bits<u32>(x), sign = whole_bits >> 24 & 0x80u, a = whole_bits & 0x7fffffffu;
  const u32 small = bits<u32>(bits<float>(a) + 128.0f) - 0x43000000u;
  const u32 normal = (a - 0x38000000u + 0xfffffu + (a >> 21 & 1u)) >> 21;
  const u32 finite = a < 0x38800000u ? small : normal;
  const u32 large = a > 0x7f800000u ? 0x7fu : 0x7cu;
  return u8(sign | (a >= 0x47800000u ? large : finite));
}
inline float e4m3_to_float(u8 e) {
  const u32 sign = u32(e & 0x80u) << 24, magnitude = u32(e & 0x7fu) << 20;
  const float scaled = bits<float>(magnitude) * 0x1p120f;
  return bits<float>(sign | ((e & 0x7fu) == 0x7fu ? 0x7fc00000u : bits<u32>(scaled)));
}
// Finite and infinite values past 448 saturate.
inline u8 float_to_e4m3(float x) {
  const u32 whole_bits = bits<u32>(x), sign = whole_bits >> 24 & 0x80u, a = whole_bits & 0x7fffffffu;
  const u32 small = bits<u32>(bits<float>(a) + 16384.0f) - 0x46800000u;
  const u32 normal = (a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20;
  const u32 finite = a < 0x3c800000u ? small : normal;
  const u32 large = a > 0x7f800000u ? 0x7fu : 0x7eu;
  return u8(sign | (a >= 0x43e00000u ? large : finite));
}

#ifdef __CUDACC_RTC__
// Nothing that a functor reads is written while it runs, so the read-only path is safe.
template <class T>
inline T read(const char* at) {
  return __ldg(reinterpret_cast<const T*>(at));
}
template <class T>
inline void write(char* at, T value) {
  *reinterpret_cast<T*>(at) = value;
}
#else
template <class T>
struct Unaligned {
  typedef T type __attribute__((aligned(1), may_alias));
};
template <class T>
inline T read(const char* at) {
  return *reinterpret_cast<const typename Unaligned<T>::type*>(at);
}
template <class T>
inline void write(char* at, T value) {
  *reinterpret_cast<typename Unaligned<T>::type*>(at) = value;
}
#endif

// raw: what lies in memory. load: to the C++ type that represents the element. store: the reverse.
template <class S>
struct Access {
  static S load(const char* at) { return read<S>(at); }
  static void store(char* at, S value) { write<S>(at, value); }
};
template <>
struct Access<Bool> {
  static bool load(const char* at) { return read<u8>(at) != 0; }
  static void store(char* at, bool value) { *at = value; }
};
#define NUMJIT_SMALL_FLOAT(S, RAW, LOAD, STORE)                                                     \
  template <>                                                                                      \
  struct Access<S> {                                                                               \
    static float load(const char* at) { return LOAD(Access<RAW>::load(at)); }                      \
    static void store(char* at, float value) { Access<RAW>::store(at, STORE(value)); }             \
    static float round(float value) { return LOAD(STORE(value)); }                                 \
  };
NUMJIT_SMALL_FLOAT(Half, u16, half_to_float, float_to_half)
NUMJIT_SMALL_FLOAT(Bfloat, u16, bfloat_to_float, float_to_bfloat)
NUMJIT_SMALL_FLOAT(E4m3, u8, e4m3_to_float, float_to_e4m3)
NUMJIT_SMALL_FLOAT(E5m2, u8, e5m2_to_float, float_to_e5m2)
#undef NUMJIT_SMALL_FLOAT

#ifdef NUMJIT_WITH_COMPLEX
template <class R>
struct Access<Complex<R>> {
  using real = decltype(Access<R>::load(nullptr));
  // Half stands for two bytes and is an empty class.
  static constexpr int size = sizeof(R) == 1 ? 2 : sizeof(R);
  static ::numjit_complex::complex<real> load(const char* at) {
    return {Access<R>::load(at), Access<R>::load(at + size)};
  }
  static void store(char* at, ::numjit_complex::complex<real> z) {
    Access<R>::store(at, z.real());
    Access<R>::store(at + size, z.imag());
  }
  static ::numjit_complex::complex<real> round(::numjit_complex::complex<real> z) {
    return {Access<R>::round(z.real()), Access<R>::round(z.imag())};
  }
};
#endif

// torch's conversions between element types on the CPU.
template <class To>
struct Convert {
  template <class From>
  static To from(From x) {
    if constexpr (std::is_same_v<To, bool>) {
      return x != From(0);
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      if constexpr (sizeof(To) <= 2 || std::is_same_v<To, std::uint32_t>)
        return static_cast<To>(static_cast<std::int64_t>(x));
      else if constexpr (std::is_same_v<To, std::uint64_t>)
        return x < 0 ? static_cast<To>(static_cast<std::int64_t>(x)) : static_cast<To>(x);
      else
        return static_cast<To>(x);
    } else {
      return static_cast<To>(x);
    }
  }
#ifdef NUMJIT_WITH_COMPLEX
  template <class R>
  static To from(::numjit_complex::complex<R> z) {
    if constexpr (std::is_same_v<To, bool>)
      return z.real() != 0 || z.imag() != 0;
    else
      return from(z.real());
  }
#endif
};
#ifdef NUMJIT_WITH_COMPLEX
template <class Q>
struct Convert<::numjit_complex::complex<Q>> {
  template <class From>
  static ::numjit_complex::complex<Q> from(From x) {
    return ::numjit_complex::complex<Q>(x);
  }
};
template <class R>
inline ::numjit_complex::complex<R> conjugate(::numjit_complex::complex<R> z) {
  return {z.real(), -z.imag()};
}
#endif
template <class T>
inline T conjugate(T x) {
  return x;
}
template <class T>
inline T negate(T x) {
  return static_cast<T>(-x);
}
inline bool negate(bool x) { return x; }

}  // namespace numjit_storage
