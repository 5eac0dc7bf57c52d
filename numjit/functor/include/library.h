// The host's standard library under the names that core.h goes on with: it leaves namespace
// numjit_standard open.
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
