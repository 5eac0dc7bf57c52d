// Dual numbers: what a template parameter stands for while a functor is differentiated
// (numjit/functor/cpp/derived.py). A value with its derivatives in N directions; of a Dual again, the second
// derivatives. Types follow C++: float beside double is double, an integer beside float is float.
//
// A partial that is not `on` is zero and nothing is ever multiplied with it, so that 0 * infinity gives no NaN.
// After inlining, the flags of most functors are constants and the partials that are off leave no instruction.
#ifdef __CUDACC_RTC__
#define NUMJIT_DUAL __forceinline__
#define NUMJIT_FLAT __forceinline__
#else
#define NUMJIT_DUAL inline __attribute__((always_inline))
#define NUMJIT_FLAT __attribute__((flatten)) inline
#endif

namespace numjit_dual {
namespace std = ::numjit_standard;

template <class R>
struct Partial {
  R d = R();
  bool on = false;
};
// Fields instead of an array: compilers take a structure apart long before they unroll a loop.
template <class R, int N>
struct Partials {
  Partial<R> head;
  Partials<R, N - 1> tail;
};
template <class R>
struct Partials<R, 1> {
  Partial<R> head;
};
// H is the type that the functor's author would see declared: of a `float` beside a `double` literal R is
// double and H float. A Dual turns by itself into one whose R is its H only, so that C++ has one type to
// choose in `c ? x : 0.5 * x` and yet `T y = 0.5 * x` goes as without duals.
template <class R, int N, class H>
struct Dual;

// How often derivatives are taken: 0 for a number, -1 for what is none.
template <class S>
constexpr int depth = std::is_arithmetic_v<S> ? 0 : -1;
template <class R, int N, class H>
constexpr int depth<Dual<R, N, H>> = 1 + depth<R>;
template <class A, class B>
constexpr int top = depth<A> < depth<B> ? depth<B> : depth<A>;
template <class A, class B>
using if_dual = std::enable_if_t<(depth<A> >= 0 && depth<B> >= 0 && top<A, B> > 0), int>;
template <class A, class B>
using wider_home = std::conditional_t<(sizeof(A) < sizeof(B)), B, A>;
template <class A>
struct home_type {
  using type = bool;  // Narrower than any.
};
template <class R, int N, class H>
struct home_type<Dual<R, N, H>> {
  using type = H;
};
template <class A>
using home_of = typename home_type<A>::type;
template <class A, class B>
using home = wider_home<home_of<A>, home_of<B>>;
template <class A>
constexpr int count = 0;
template <class R, int N, class H>
constexpr int count<Dual<R, N, H>> = N;

// The number below all derivatives, and the same nest of derivatives around another number.
template <class S>
struct nest {
  using leaf = S;
  template <class L>
  using of = L;
};
template <class R, int N, class H>
struct nest<Dual<R, N, H>> {
  using leaf = typename nest<R>::leaf;
  template <class L>
  using of = Dual<typename nest<R>::template of<L>, N, H>;
};
template <class S>
using leaf = typename nest<S>::leaf;
template <class S, class L>
using with_leaf = typename nest<S>::template of<L>;
template <class S>
constexpr bool never = false;

template <class R, int N, class H>
struct Dual {
  R v;
  Partials<R, N> p;

  constexpr Dual() : v(), p{} {}
  template <class S, std::enable_if_t<(depth<S> >= 0 && depth<S> <= depth<R>), int> = 0>
  constexpr Dual(const S& s) : v(static_cast<R>(s)), p{} {}
  template <class Q, class G,
            std::enable_if_t<(depth<Q> == depth<R> && std::is_same_v<leaf<R>, H>), int> = 0>
  constexpr Dual(const Dual<Q, N, G>& a) : v(), p{} {
    take(a);
  }
  template <class Q, class G,
            std::enable_if_t<(depth<Q> == depth<R> && !std::is_same_v<leaf<R>, H>), long> = 0>
  explicit constexpr Dual(const Dual<Q, N, G>& a) : v(), p{} {
    take(a);
  }
  constexpr Dual(const Dual&) = default;
  constexpr Dual& operator=(const Dual&) = default;
  template <class S, std::enable_if_t<(depth<S> >= 0), int> = 0>
  constexpr Dual& operator=(const S& s) {
    return *this = Dual(s);
  }

  template <class S, std::enable_if_t<std::is_integral_v<S>, int> = 0>
  explicit constexpr operator S() const {
    return static_cast<S>(v);
  }
  template <class S, std::enable_if_t<std::is_floating_point_v<S>, long> = 0>
  explicit constexpr operator S() const {
    static_assert(never<S>,
                  "a cast that drops the derivative: keep T, or write the gradient with numjit.differentiable");
    return S();
  }

#define NUMJIT_ASSIGN(op)                                                \
  template <class S, std::enable_if_t<(depth<S> >= 0), int> = 0>         \
  NUMJIT_DUAL constexpr Dual& operator op##=(const S& s) {               \
    return *this = static_cast<Dual>(*this op s);                        \
  }
  NUMJIT_ASSIGN(+)
  NUMJIT_ASSIGN(-)
  NUMJIT_ASSIGN(*)
  NUMJIT_ASSIGN(/)
#undef NUMJIT_ASSIGN
  constexpr Dual& operator++() { return *this += 1; }
  constexpr Dual& operator--() { return *this -= 1; }
  constexpr Dual operator++(int) {
    const Dual kept = *this;
    *this += 1;
    return kept;
  }
  constexpr Dual operator--(int) {
    const Dual kept = *this;
    *this -= 1;
    return kept;
  }

 private:
  template <class Q, class G>
  NUMJIT_DUAL constexpr void take(const Dual<Q, N, G>& a) {
    v = static_cast<R>(a.v);
    take(p, a.p);
  }
  template <class Q, int M>
  static NUMJIT_DUAL constexpr void take(Partials<R, M>& r, const Partials<Q, M>& a) {
    r.head.d = static_cast<R>(a.head.d);
    r.head.on = a.head.on;
    if constexpr (M > 1) take(r.tail, a.tail);
  }
};

// What stands for `a` beside a number of depth D: its value, or itself where it is a constant there.
template <int D, class A>
NUMJIT_DUAL constexpr const auto& value(const A& a) {
  if constexpr (depth<A> == D)
    return a.v;
  else
    return a;
}
template <class A, class B>
constexpr int directions = depth<A> == top<A, B> ? count<A> : count<B>;

// Adds a term where `on`, else nothing. Numbers are chosen without branches, which loops vectorise.
template <class R>
NUMJIT_DUAL constexpr void add(Partial<R>& sum, const R& term, bool on) {
  if constexpr (depth<R> == 0) {
    const R whole = sum.on ? sum.d + term : term;
    sum.d = on ? whole : sum.d;
    sum.on = sum.on | on;
  } else if (on) {
    if (sum.on)
      sum.d = sum.d + term;
    else
      sum.d = term;
    sum.on = true;
  }
}
// Calls f with each partial of r and the same one of a.
template <class R, int N, class Q, class F>
NUMJIT_DUAL constexpr void each(Partials<R, N>& r, const Partials<Q, N>& a, const F& f) {
  f(r.head, a.head);
  if constexpr (N > 1) each(r.tail, a.tail, f);
}
template <int I, class R, int N>
NUMJIT_DUAL constexpr auto& partial(Partials<R, N>& p) {
  if constexpr (I == 0)
    return p.head;
  else
    return partial<I - 1>(p.tail);
}
template <int I, class R, int N>
NUMJIT_DUAL constexpr const auto& partial(const Partials<R, N>& p) {
  if constexpr (I == 0)
    return p.head;
  else
    return partial<I - 1>(p.tail);
}
// The chain rule: adds slope * da to the partials of r.
template <class R, class Q, int N>
NUMJIT_DUAL constexpr void chain(Partials<R, N>& r, const Partials<Q, N>& a, const R& slope) {
  add(r.head, slope * static_cast<R>(a.head.d), a.head.on);
  if constexpr (N > 1) chain(r.tail, a.tail, slope);
}
template <class R, int N, class H, class Q, class G>
NUMJIT_DUAL constexpr void chain(Dual<R, N, H>& r, const Dual<Q, N, G>& a, const R& slope) {
  chain(r.p, a.p, slope);
}

// In what is derived, x, y and z are the operands and v is the value.
#define NUMJIT_OPERATOR(op, SLOPE_A, SLOPE_B)                               \
  template <class A, class B, if_dual<A, B> = 0>                            \
  NUMJIT_DUAL constexpr auto operator op(const A& a, const B& b) {          \
    constexpr int D = top<A, B>;                                            \
    const auto v = value<D>(a) op value<D>(b);                              \
    using R = std::remove_cv_t<decltype(v)>;                                \
    Dual<R, directions<A, B>, home<A, B>> r(v);                                         \
    const R x = static_cast<R>(value<D>(a)), y = static_cast<R>(value<D>(b)); \
    (void)x, (void)y;                                                       \
    if constexpr (depth<A> == D) chain(r, a, static_cast<R>(SLOPE_A));      \
    if constexpr (depth<B> == D) chain(r, b, static_cast<R>(SLOPE_B));      \
    return r;                                                               \
  }
// numjit.rules: operators
NUMJIT_OPERATOR(+, R(1), R(1))
NUMJIT_OPERATOR(-, R(1), R(-1))
NUMJIT_OPERATOR(*, y, x)
NUMJIT_OPERATOR(/, R(1) / y, -(v / y))
// numjit.rules: end
#undef NUMJIT_OPERATOR
template <class R, int N, class H>
NUMJIT_DUAL constexpr Dual<R, N, H> operator-(const Dual<R, N, H>& a) {
  Dual<R, N, H> r(-a.v);
  chain(r, a, R(-1));
  return r;
}
template <class R, int N, class H>
NUMJIT_DUAL constexpr Dual<R, N, H> operator+(const Dual<R, N, H>& a) {
  return a;
}
#define NUMJIT_COMPARE(op)                                           \
  template <class A, class B, if_dual<A, B> = 0>                     \
  NUMJIT_DUAL constexpr bool operator op(const A& a, const B& b) {   \
    constexpr int D = top<A, B>;                                     \
    return value<D>(a) op value<D>(b);                               \
  }
NUMJIT_COMPARE(<)
NUMJIT_COMPARE(<=)
NUMJIT_COMPARE(>)
NUMJIT_COMPARE(>=)
NUMJIT_COMPARE(==)
NUMJIT_COMPARE(!=)
#undef NUMJIT_COMPARE

// ----------------------------------------------------------------------------------- in and out of duals

// Which numbers become duals: real floating ones; numjit/dual_complex.h adds complex ones.
template <class S, int N>
struct lifting {
  using type = std::conditional_t<(std::is_floating_point_v<leaf<S>> && depth<S> >= 0), Dual<S, N, leaf<S>>, S>;
  static constexpr int directions = 1;
};
template <class S, int N>
using lifted = typename lifting<S, N>::type;
template <class S>
constexpr int directions_of = lifting<S, 1>::directions;

// A variable with derivative 1 in direction I.
template <int N, int I, class S>
NUMJIT_DUAL lifted<S, N> seed(const S& s) {
  lifted<S, N> r(s);
  partial<I>(r.p) = {S(1), true};
  return r;
}
template <class S>
NUMJIT_DUAL lifted<S, 1> moving(const S& s, const S& tangent) {
  lifted<S, 1> r(s);
  r.p.head = {tangent, true};
  return r;
}
// The product of an output's gradient with its derivative in direction i.
template <int I, class S, class G, class Q, std::enable_if_t<(depth<Q> < 0 || depth<Q> <= depth<G>), int> = 0>
NUMJIT_DUAL void pull(Partial<S>&, const G&, const Q&) {}
template <int I, class S, class G, class R, int N, class H, std::enable_if_t<(depth<G> == depth<R>), int> = 0>
NUMJIT_DUAL void pull(Partial<S>& sum, const G& g, const Dual<R, N, H>& r) {
  add(sum, static_cast<S>(g * partial<I>(r.p).d), partial<I>(r.p).on);
}
template <class S, int I>
struct Gradient {
  Partial<S> sum{};
  template <class G, class Q>
  NUMJIT_DUAL void take(const G& g, const Q& r) {
    pull<I>(sum, g, r);
  }
  NUMJIT_DUAL S get() const { return sum.on ? sum.d : S(0); }
};
template <class R, int N, class H>
NUMJIT_DUAL R tangent(const Dual<R, N, H>& r) {
  return r.p.head.on ? r.p.head.d : R(0);
}
template <class S, std::enable_if_t<std::is_arithmetic_v<S>, int> = 0>
NUMJIT_DUAL S tangent(const S&) {
  return S(0);
}
// Takes an output that nobody asks for.
struct Sink {
  template <class S>
  constexpr Sink& operator=(const S&) {
    return *this;
  }
};
}  // namespace numjit_dual

// ---------------------------------------------------------------- where functors look for names and types

#ifdef __CUDACC_RTC__
namespace numjit_standard {
#else
namespace std {
#endif
template <class R, int N, class H>
struct numeric_limits<::numjit_dual::Dual<R, N, H>> : numeric_limits<R> {
  using T = ::numjit_dual::Dual<R, N, H>;
#define NUMJIT_LIMIT(f) \
  static constexpr T f() { return T(numeric_limits<R>::f()); }
  NUMJIT_LIMIT(min)
  NUMJIT_LIMIT(max)
  NUMJIT_LIMIT(lowest)
  NUMJIT_LIMIT(epsilon)
  NUMJIT_LIMIT(round_error)
  NUMJIT_LIMIT(infinity)
  NUMJIT_LIMIT(quiet_NaN)
  NUMJIT_LIMIT(signaling_NaN)
  NUMJIT_LIMIT(denorm_min)
#undef NUMJIT_LIMIT
};
}  // namespace numjit_standard

namespace numjit_standard {
template <class R, int N, class H>
struct numjit_code<::numjit_dual::Dual<R, N, H>> : numjit_code<R> {};
}  // namespace numjit_standard

// What a functor asks about T has the answer of the number below the derivatives.
namespace numjit_scope {
namespace std {
template <class A>
struct numjit_plain {
  using type = A;
};
template <class R, int N, class H>
struct numjit_plain<::numjit_dual::Dual<R, N, H>> {
  using type = ::numjit_dual::leaf<R>;
};
template <class A>
using numjit_plain_t = typename numjit_plain<A>::type;
template <class A, class B>
struct is_same : ::numjit_standard::is_same<numjit_plain_t<A>, numjit_plain_t<B>> {};
template <class A, class B>
inline constexpr bool is_same_v = is_same<A, B>::value;
#define NUMJIT_TRAIT(trait)                                              \
  template <class A>                                                     \
  struct trait : ::numjit_standard::trait<numjit_plain_t<A>> {};         \
  template <class A>                                                     \
  inline constexpr bool trait##_v = trait<A>::value;
NUMJIT_TRAIT(is_integral)
NUMJIT_TRAIT(is_floating_point)
NUMJIT_TRAIT(is_arithmetic)
NUMJIT_TRAIT(is_signed)
NUMJIT_TRAIT(is_unsigned)
#ifndef __CUDACC_RTC__
NUMJIT_TRAIT(is_fundamental)
NUMJIT_TRAIT(is_scalar)
NUMJIT_TRAIT(is_class)
NUMJIT_TRAIT(is_compound)
NUMJIT_TRAIT(is_trivial)
NUMJIT_TRAIT(is_trivially_default_constructible)
NUMJIT_TRAIT(is_pod)
NUMJIT_TRAIT(is_literal_type)
NUMJIT_TRAIT(has_unique_object_representations)
template <class A>
struct alignment_of : ::numjit_standard::alignment_of<numjit_plain_t<A>> {};
template <class A>
inline constexpr auto alignment_of_v = alignment_of<A>::value;
#define NUMJIT_TRAIT_OF_TWO(trait)                                                        \
  template <class A, class B>                                                             \
  struct trait : ::numjit_standard::trait<numjit_plain_t<A>, numjit_plain_t<B>> {};       \
  template <class A, class B>                                                             \
  inline constexpr bool trait##_v = trait<A, B>::value;
NUMJIT_TRAIT_OF_TWO(is_convertible)
NUMJIT_TRAIT_OF_TWO(is_base_of)
NUMJIT_TRAIT_OF_TWO(is_assignable)
#undef NUMJIT_TRAIT_OF_TWO
#endif
#undef NUMJIT_TRAIT
}  // namespace std
}  // namespace numjit_scope

namespace numjit_dual {
// What `sizeof` and `alignof` of the user's text are compiled as: those of the number below the derivatives.
template <class S>
struct plain_size {
  using P = ::numjit_standard::remove_cv_t<::numjit_standard::remove_reference_t<S>>;
  using N = ::numjit_scope::std::numjit_plain_t<P>;
  // A class has bytes for derivatives in it that it has not without.
  static constexpr bool known = !::numjit_standard::is_same_v<N, P> || __is_enum(P) || !__is_class(P);
};
template <class S, size_t M>
struct plain_size<S[M]> {
  static constexpr bool known = plain_size<S>::known;
  using N = typename plain_size<S>::N[M];
};
template <class S, size_t M>
struct plain_size<S (&)[M]> : plain_size<S[M]> {};
template <class S>
constexpr ::numjit_standard::size_t size_of() {
  static_assert(plain_size<S>::known, "the size of a class in a derivative: write the gradient with numjit.differentiable");
  return sizeof(typename plain_size<S>::N);
}
template <class S>
constexpr ::numjit_standard::size_t align_of() {
  static_assert(plain_size<S>::known, "the size of a class in a derivative: write the gradient with numjit.differentiable");
  return alignof(typename plain_size<S>::N);
}
}  // namespace numjit_dual
