// The standard library as far as functors need it, for NVRTC, which has none. The first part of core.h:
// it leaves namespace numjit_standard open.
//
// Lines from "//@ words" to "//@" are left out of programs in which none of the words is used: NVRTC takes a
// third less for a short functor without them. `math` stands for any function that core.h has a line for.
#ifndef INFINITY
#define INFINITY (__builtin_bit_cast(float, 0x7f800000u))
#endif
#ifndef NAN
#define NAN (__builtin_bit_cast(float, 0x7fc00000u))
#endif
#ifndef HUGE_VAL
#define HUGE_VAL (__builtin_bit_cast(double, 0x7ff0000000000000ull))
#define HUGE_VALF (__builtin_bit_cast(float, 0x7f800000u))
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef FLT_MAX
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1p-1022
#define DBL_EPSILON 0x1p-52
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#endif
#ifndef CHAR_BIT
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 18446744073709551615ull
#endif
#ifndef INT8_MAX
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX 18446744073709551615ull
#define SIZE_MAX 18446744073709551615ull
#endif

namespace numjit_standard {

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
#ifdef _WIN32
using int64_t = long long;
using uint64_t = unsigned long long;
#else
using int64_t = long;
using uint64_t = unsigned long;
#endif
using size_t = ::size_t;
using ptrdiff_t = int64_t;
using intptr_t = int64_t;
using uintptr_t = uint64_t;

using namespace ::std;  // move, forward and initializer_list, which NVRTC brings.

//@ std math
template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return V; }
};
template <bool B>
using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <class A, class B>
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <bool B, class Yes, class No>
struct conditional {
  using type = Yes;
};
template <class Yes, class No>
struct conditional<false, Yes, No> {
  using type = No;
};
template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
struct remove_cv {
  using type = T;
};
template <class T>
struct remove_cv<const T> {
  using type = T;
};
template <class T>
struct remove_cv<volatile T> {
  using type = T;
};
template <class T>
struct remove_cv<const volatile T> {
  using type = T;
};
template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <bool B, class Yes, class No>
using conditional_t = typename conditional<B, Yes, No>::type;
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
using remove_cv_t = typename remove_cv<T>::type;
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
struct decay {
  using type = remove_cv_t<remove_reference_t<T>>;
};
template <class T>
using decay_t = typename decay<T>::type;
template <class...>
using void_t = void;
template <class T>
T&& declval() noexcept;

// A base, since the members of explicit specialisations would be variables of every kernel.
template <class T>
struct numjit_kind : integral_constant<int, 0> {};
#define NUMJIT_KIND(T, V) \
  template <>             \
  struct numjit_kind<T> : integral_constant<int, V> {};
NUMJIT_KIND(bool, 1)
NUMJIT_KIND(char, 2)
NUMJIT_KIND(signed char, 2)
NUMJIT_KIND(unsigned char, 2)
NUMJIT_KIND(wchar_t, 2)
NUMJIT_KIND(short, 2)
NUMJIT_KIND(unsigned short, 2)
NUMJIT_KIND(int, 2)
NUMJIT_KIND(unsigned, 2)
NUMJIT_KIND(long, 2)
NUMJIT_KIND(unsigned long, 2)
NUMJIT_KIND(long long, 2)
NUMJIT_KIND(unsigned long long, 2)
NUMJIT_KIND(float, 3)
NUMJIT_KIND(double, 3)
#undef NUMJIT_KIND
template <class T>
struct is_integral : bool_constant<numjit_kind<remove_cv_t<T>>::value == 1 || numjit_kind<remove_cv_t<T>>::value == 2> {};
template <class T>
struct is_floating_point : bool_constant<numjit_kind<remove_cv_t<T>>::value == 3> {};
template <class T>
struct is_arithmetic : bool_constant<numjit_kind<remove_cv_t<T>>::value != 0> {};
template <class T, bool = is_arithmetic<T>::value>
struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T>
struct is_signed<T, false> : false_type {};
template <class T, bool = is_arithmetic<T>::value>
struct is_unsigned : bool_constant<(T(0) < T(-1))> {};
template <class T>
struct is_unsigned<T, false> : false_type {};
template <class A, class B>
inline constexpr bool is_same_v = is_same<A, B>::value;
template <class T>
inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T>
inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T>
inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T>
inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T>
inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T>
struct make_unsigned {
  using type = conditional_t<sizeof(T) == 1, uint8_t, conditional_t<sizeof(T) == 2, uint16_t, conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
};
template <class T>
struct make_signed {
  using type = conditional_t<sizeof(T) == 1, int8_t, conditional_t<sizeof(T) == 2, int16_t, conditional_t<sizeof(T) == 4, int32_t, int64_t>>>;
};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
using make_signed_t = typename make_signed<T>::type;
template <class A, class B = A>
struct common_type {
  using type = decay_t<decltype(true ? declval<A>() : declval<B>())>;
};
template <class A, class B = A>
using common_type_t = typename common_type<A, B>::type;
//@

//@ numeric_limits
template <class T>
struct numeric_limits {
  static constexpr bool is_specialized = is_integral_v<T>;
  static constexpr bool is_signed = numjit_standard::is_signed<T>::value;
  static constexpr bool is_integer = is_specialized;
  static constexpr bool is_exact = is_specialized;
  static constexpr bool has_infinity = false;
  static constexpr bool has_quiet_NaN = false;
  static constexpr bool is_bounded = is_specialized;
  static constexpr bool is_modulo = is_specialized && !is_signed;
  static constexpr int radix = 2;
  static constexpr int digits = is_same_v<T, bool> ? 1 : int(8 * sizeof(T)) - int(is_signed);
  static constexpr int digits10 = digits * 30103 / 100000;
  static constexpr int max_digits10 = 0;
  static constexpr T min() { return is_signed ? T(T(1) << (8 * sizeof(T) - 1)) : T(0); }
  static constexpr T max() { return is_same_v<T, bool> ? T(1) : is_signed ? T(~min()) : T(~T(0)); }
  static constexpr T lowest() { return min(); }
  static constexpr T epsilon() { return T(0); }
  static constexpr T round_error() { return T(0); }
  static constexpr T infinity() { return T(0); }
  static constexpr T quiet_NaN() { return T(0); }
  static constexpr T denorm_min() { return T(0); }
};
#define NUMJIT_LIMITS(T, MIN, MAX, EPSILON, DENORM, INF, NOT, DIGITS, DIGITS10, ALL10, LOW, HIGH, LOW10, HIGH10) \
  template <>                                                    \
  struct numeric_limits<T> {                                     \
    static constexpr bool is_specialized = true;                 \
    static constexpr bool is_signed = true;                      \
    static constexpr bool is_integer = false;                    \
    static constexpr bool is_exact = false;                      \
    static constexpr bool has_infinity = true;                   \
    static constexpr bool has_quiet_NaN = true;                  \
    static constexpr bool is_iec559 = true;                      \
    static constexpr bool is_bounded = true;                     \
    static constexpr bool is_modulo = false;                     \
    static constexpr int radix = 2;                              \
    static constexpr int digits = DIGITS;                        \
    static constexpr int digits10 = DIGITS10;                    \
    static constexpr int max_digits10 = ALL10;                   \
    static constexpr int min_exponent = LOW;                     \
    static constexpr int max_exponent = HIGH;                    \
    static constexpr int min_exponent10 = LOW10;                 \
    static constexpr int max_exponent10 = HIGH10;                \
    static constexpr T min() { return MIN; }                     \
    static constexpr T max() { return MAX; }                     \
    static constexpr T lowest() { return -(MAX); }               \
    static constexpr T epsilon() { return EPSILON; }             \
    static constexpr T round_error() { return T(0.5); }          \
    static constexpr T infinity() { return INF; }                \
    static constexpr T quiet_NaN() { return NOT; }               \
    static constexpr T signaling_NaN() { return NOT; }           \
    static constexpr T denorm_min() { return DENORM; }           \
  };
NUMJIT_LIMITS(float, 0x1p-126f, 0x1.fffffep127f, 0x1p-23f, 0x1p-149f, __builtin_bit_cast(float, 0x7f800000u), __builtin_bit_cast(float, 0x7fc00000u), 24, 6, 9, -125, 128, -37, 38)
NUMJIT_LIMITS(double, 0x1p-1022, 0x1.fffffffffffffp1023, 0x1p-52, 0x1p-1074, __builtin_bit_cast(double, 0x7ff0000000000000ull), __builtin_bit_cast(double, 0x7ff8000000000000ull), 53, 15, 17, -1021, 1024, -307, 308)
#undef NUMJIT_LIMITS
//@

//@ min max clamp swap
template <class T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T, class Less>
constexpr const T& min(const T& a, const T& b, Less less) {
  return less(b, a) ? b : a;
}
template <class T, class Less>
constexpr const T& max(const T& a, const T& b, Less less) {
  return less(a, b) ? b : a;
}
template <class T>
constexpr T min(initializer_list<T> list) {
  T best = *list.begin();
  for (const T* at = list.begin(); at != list.end(); ++at) best = *at < best ? *at : best;
  return best;
}
template <class T>
constexpr T max(initializer_list<T> list) {
  T best = *list.begin();
  for (const T* at = list.begin(); at != list.end(); ++at) best = best < *at ? *at : best;
  return best;
}
template <class T>
constexpr const T& clamp(const T& x, const T& low, const T& high) {
  return x < low ? low : high < x ? high : x;
}
template <class T>
constexpr void swap(T& a, T& b) {
  T kept = a;
  a = b;
  b = kept;
}
//@

//@ memcpy
using ::memcpy;
//@
//@ memset
using ::memset;
//@
//@ array
template <class T, size_t N>
struct array {
  using value_type = T;
  T items[N ? N : 1];
  constexpr T& operator[](size_t i) { return items[i]; }
  constexpr const T& operator[](size_t i) const { return items[i]; }
  constexpr T& at(size_t i) { return items[i]; }
  constexpr const T& at(size_t i) const { return items[i]; }
  constexpr T& front() { return items[0]; }
  constexpr const T& front() const { return items[0]; }
  constexpr T& back() { return items[N ? N - 1 : 0]; }
  constexpr const T& back() const { return items[N ? N - 1 : 0]; }
  constexpr T* data() { return items; }
  constexpr const T* data() const { return items; }
  constexpr T* begin() { return items; }
  constexpr const T* begin() const { return items; }
  constexpr T* end() { return items + N; }
  constexpr const T* end() const { return items + N; }
  constexpr size_t size() const { return N; }
  constexpr bool empty() const { return N == 0; }
  constexpr void fill(const T& value) {
    for (size_t i = 0; i < N; ++i) items[i] = value;
  }
};
template <class T, class... U>
array(T, U...) -> array<T, 1 + sizeof...(U)>;
//@

//@ math
// An integer argument computes in double and two different types in the wider one, as in standard C++.
template <class I>
using numjit_if_integer = enable_if_t<is_integral_v<I>, double>;
template <class A, class B>
using numjit_if_mixed =
    enable_if_t<is_arithmetic_v<A> && is_arithmetic_v<B> && !(is_same_v<A, B> && is_floating_point_v<A>), double>;
#define NUMJIT_UNARY(f)             \
  using ::f;                        \
  template <class I>                \
  numjit_if_integer<I> f(I x) {     \
    return ::f(static_cast<double>(x)); \
  }
#define NUMJIT_BINARY(f)                                            \
  using ::f;                                                        \
  template <class A, class B>                                       \
  numjit_if_mixed<A, B> f(A x, B y) {                               \
    return ::f(static_cast<double>(x), static_cast<double>(y));     \
  }
#define NUMJIT_TEST(f)                  \
  using ::f;                            \
  template <class I, class = numjit_if_integer<I>> \
  bool f(I x) {                         \
    return ::f(static_cast<double>(x)); \
  }
//@
