// The host's standard library under the names that core.h goes on with: it leaves namespace
// numjit_standard open.

// Where math functions set no errno GCC (seen in 12.2) makes of sin(atan(x)) and cos(atan(x)) what is 1 and 0
// of NaN. So it is kept from knowing the arc tangent, but for constants.
#if defined(__GNUC__) && !defined(__clang__)
#define NUMJIT_TEXT(x) #x
#define NUMJIT_SYMBOL(prefix, name) NUMJIT_TEXT(prefix) name
extern "C" {
__attribute__((const)) float numjit_atanf(float) __asm__(NUMJIT_SYMBOL(__USER_LABEL_PREFIX__, "atanf"));
__attribute__((const)) double numjit_atan(double) __asm__(NUMJIT_SYMBOL(__USER_LABEL_PREFIX__, "atan"));
}
namespace numjit_standard {
constexpr float arc_tangent(float x) {
  return __builtin_constant_p(x) ? __builtin_atanf(x) : numjit_atanf(x);
}
constexpr double arc_tangent(double x) {
  return __builtin_constant_p(x) ? __builtin_atan(x) : numjit_atan(x);
}
}  // namespace numjit_standard
#define __builtin_atanf(x) ::numjit_standard::arc_tangent(static_cast<float>(x))
#define __builtin_atan(x) ::numjit_standard::arc_tangent(static_cast<double>(x))
#include <cmath>
#undef __builtin_atanf
#undef __builtin_atan
#undef NUMJIT_SYMBOL
#undef NUMJIT_TEXT
#ifdef __GLIBC__
extern "C" {
__attribute__((const)) float atanf(float) noexcept;
__attribute__((const)) double atan(double) noexcept;
}
#endif
#endif

#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

namespace numjit_standard {
using namespace ::std;

template <class T, class U = T>
constexpr const T& clamp(const T& x, const U& low, const U& high) {
  return x < low ? low : high < x ? high : x;
}
template <class T>
constexpr T min(::std::initializer_list<T> list) {
  T best = *list.begin();
  for (const T* at = list.begin(); at != list.end(); ++at) best = *at < best ? *at : best;
  return best;
}
template <class T>
constexpr T max(::std::initializer_list<T> list) {
  T best = *list.begin();
  for (const T* at = list.begin(); at != list.end(); ++at) best = best < *at ? *at : best;
  return best;
}
using ::std::max;
using ::std::min;
#define NUMJIT_UNARY(f) using ::std::f;
#define NUMJIT_BINARY(f) using ::std::f;
#define NUMJIT_TEST(f) using ::std::f;
