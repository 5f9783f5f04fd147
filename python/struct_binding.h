// bind_struct: a plain struct of options as a Python class.
//
// Each member becomes a keyword argument with the C++ default, and a read-only attribute; the class
// has repr(), == and pickling. So Python knows no default of its own.
//
//   bind_struct<decode::Limits, 0>(module, "Limits", "Upper bounds for ...", {},
//                                  member("max_pixels", &decode::Limits::max_pixels, "..."), ...);
//
// An argument that there is not is answered by the nearest name; nanobind would list all of them.
//
// Threads: as a value; the GIL is held.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/base/words.h"
#include "python/arguments.h"
#include "python/literal.h"

namespace millrace::python {

namespace nb = nanobind;

/// A member as Python sees it: a value of type V.
template <typename V, typename Get, typename Set>
struct Member {
  using Value = V;
  const char* name;
  Get get;          ///< of a const T&: a V, or what Python makes a V of
  Set set;          ///< puts a V into a T&
  const char* doc;  ///< what help() says of it
};

template <typename V, typename Get, typename Set>
Member<V, Get, Set> member_as(const char* name, Get get, Set set, const char* doc) {
  return {name, std::move(get), std::move(set), doc};
}

template <typename T, typename V>
auto member(const char* name, V T::*place, const char* doc) {
  return member_as<V>(
      name, [place](const T& of) { return of.*place; },
      [place](T& of, V value) { of.*place = std::move(value); }, doc);
}

/// A member that Python sees as one of the table's words, and a type checker as their Literal.
template <const auto& kTable, typename T, typename E>
auto word(const char* name, E T::*place, const char* doc) {
  return member_as<Chosen<kTable>>(
      name, [=](const T& of) { return Chosen<kTable>{word_of(of.*place, kTable)}; },
      [=](T& of, const Chosen<kTable>& chosen) { of.*place = value_of(name, chosen.text, kTable); },
      doc);
}

namespace detail {

/// "RandomCrop(height=32, width=32, padding=4)".
inline std::string repr_of(const char* name, const nb::list& names, const nb::tuple& values) {
  std::string text = std::string(name) + "(";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += ", ";
    text += nb::cast<std::string>(names[i]) + "=" + nb::repr(values[i]).c_str();
  }
  return text + ")";
}

template <typename T, typename... Members>
nb::tuple values_of(const T& of, const Members&... members) {
  return nb::make_tuple(nb::cast(members.get(of))...);
}

template <typename T, typename Values, typename... Members, std::size_t... I>
void set_all(T& of, const Values& values, std::index_sequence<I...>, const Members&... members) {
  (members.set(of, nb::cast<typename Members::Value>(values[I])), ...);
}

template <typename T, typename... Members>
void add_members(nb::class_<T>& bound, const char* name, const T& usual,
                 const Members&... members) {
  (bound.def_prop_ro(members.name, members.get, members.doc), ...);
  bound.def(
      "__getstate__", [members...](const T& self) { return values_of(self, members...); },
      nb::sig("def __getstate__(self) -> tuple[object, ...]"));
  bound.def(
      "__setstate__",
      [usual, members...](T& self, const nb::tuple& values) {
        new (&self) T(usual);
        set_all(self, values, std::index_sequence_for<Members...>(), members...);
      },
      nb::sig("def __setstate__(self, state: tuple[object, ...], /) -> None"));
  bound.def(
      "__eq__",
      [members...](const T& self, const nb::object& other) {
        T* same = nullptr;
        if (other.is_none() || !nb::try_cast(other, same)) return false;
        return values_of(self, members...).equal(values_of(*same, members...));
      },
      nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  bound.def("__repr__", [name, members...](const T& self) {
    nb::list names;
    (names.append(members.name), ...);
    return repr_of(name, names, values_of(self, members...));
  });
}

}  // namespace detail

namespace detail {

/// `make` makes a T of its arguments, whose types and defaults it knows.
template <typename T>
void add_init(nb::class_<T>& bound, const char* name, const std::vector<std::string>& names,
              const nb::object& make) {
  bound.def(
      "__init__",
      [name, names, make](T* self, const nb::args& by_place, const nb::kwargs& by_name) {
        check_names(name, by_name, names);
        new (self) T(nb::cast<const T&>(make(*by_place, **by_name)));
      },
      nb::sig(init_signature(make).c_str()));
}

}  // namespace detail

/// The first `kPositional` arguments may also be given by their place. `usual` has the defaults.
template <typename T, std::size_t kPositional, typename... Members>
nb::class_<T> bind_struct(nb::module_& module, const char* name, const char* doc, const T& usual,
                          Members... members) {
  nb::class_<T> bound(module, name, doc);
  const auto make = [usual, members...](typename Members::Value... values) {
    T made(usual);
    (members.set(made, std::move(values)), ...);
    return made;
  };
  const auto arguments = std::make_tuple((nb::arg(members.name) = members.get(usual))...);
  const auto typed = [&]<std::size_t... First, std::size_t... Rest>(std::index_sequence<First...>,
                                                                    std::index_sequence<Rest...>) {
    if constexpr (sizeof...(Rest) == 0)
      return nb::cpp_function(make, nb::name(name), std::get<First>(arguments)...);
    else
      return nb::cpp_function(make, nb::name(name), std::get<First>(arguments)..., nb::kw_only(),
                              std::get<kPositional + Rest>(arguments)...);
  };
  detail::add_init(bound, name, {members.name...},
                   typed(std::make_index_sequence<kPositional>(),
                         std::make_index_sequence<sizeof...(Members) - kPositional>()));
  detail::add_members(bound, name, usual, members...);
  return bound;
}

/// The same for a struct that begins with a list, whose items are the arguments without a name;
/// `items` says what they are: "transforms".
template <typename T, typename List, typename... Members>
nb::class_<T> bind_list_struct(nb::module_& module, const char* name, const char* doc,
                               const char* items, List list, Members... members) {
  nb::class_<T> bound(module, name, doc);
  const T usual{};
  const auto make = [usual, name, list, members...](const nb::args& first,
                                                    typename Members::Value... values) {
    typename List::Value given;
    if (!nb::try_cast(first, given))
      throw nb::type_error(
          (std::string(name) + "() takes " + list.name + " without a name, and all else by name")
              .c_str());
    T made(usual);
    list.set(made, std::move(given));
    (members.set(made, std::move(values)), ...);
    return made;
  };
  detail::add_init(bound, name, {members.name...},
                   nb::cpp_function(make, nb::name(name), nb::arg(items),
                                    (nb::arg(members.name) = members.get(usual))...));
  detail::add_members(bound, name, usual, list, members...);
  return bound;
}

}  // namespace millrace::python
