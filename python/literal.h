// Values that Python knows by a narrower type than str or object, for type checkers.
//
// Threads: as values; the GIL is held.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::python {

/// A text that the type stub has as typing.Literal of the words of `kTable` (io/base/words.h).
/// Whether it is one of them is not checked.
template <const auto& kTable>
struct Chosen {
  std::string text;
};

/// Bytes; from Python also a str, which stands for its UTF-8.
struct BytesOrText {
  std::string bytes;
  bool is_text = false;  ///< it goes to Python as a str
};

namespace detail {

constexpr std::string_view kQuote = "'";
constexpr std::string_view kBetween = ", ";

template <const auto& kTable>
constexpr std::size_t literal_size() {
  std::size_t size = 0;
  for (const auto& [word, value] : kTable)
    size += (size > 0 ? kBetween.size() : 0) + word.size() + 2 * kQuote.size();
  return size;
}

/// "'HWC', 'CHW'".
template <const auto& kTable>
constexpr auto literal_words() {
  nanobind::detail::descr<literal_size<kTable>()> words;
  char* to = words.text;
  const auto put = [&to](std::string_view part) {
    for (const char one : part) *to++ = one;
  };
  for (const auto& [word, value] : kTable) {
    if (to != words.text) put(kBetween);
    put(kQuote);
    put(word);
    put(kQuote);
  }
  return words;
}

}  // namespace detail

}  // namespace millrace::python

namespace nanobind::detail {

template <const auto& kTable>
struct type_caster<millrace::python::Chosen<kTable>> {
  NB_TYPE_CASTER(millrace::python::Chosen<kTable>,
                 const_name("typing.Literal[") + millrace::python::detail::literal_words<kTable>() +
                     const_name("]"))

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<std::string> text;
    if (!text.from_python(source, flags, cleanup)) return false;
    value.text = std::move(text.value);
    return true;
  }
  static handle from_cpp(const millrace::python::Chosen<kTable>& chosen, rv_policy policy,
                         cleanup_list* cleanup) noexcept {
    return make_caster<std::string>::from_cpp(chosen.text, policy, cleanup);
  }
};

template <>
struct type_caster<millrace::python::BytesOrText> {
  NB_TYPE_CASTER(millrace::python::BytesOrText, const_name("bytes | str"))

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    if (PyBytes_Check(source.ptr())) {
      const auto given = borrow<nanobind::bytes>(source);
      value.bytes.assign(given.c_str(), given.size());
      return true;
    }
    make_caster<std::string> text;
    if (!text.from_python(source, flags, cleanup)) return false;
    value.bytes = std::move(text.value);
    return true;
  }
  static handle from_cpp(const millrace::python::BytesOrText& given, rv_policy,
                         cleanup_list*) noexcept {
    const auto size = static_cast<Py_ssize_t>(given.bytes.size());
    if (given.is_text) return PyUnicode_DecodeUTF8(given.bytes.data(), size, "surrogateescape");
    return PyBytes_FromStringAndSize(given.bytes.data(), size);
  }
};

}  // namespace nanobind::detail
