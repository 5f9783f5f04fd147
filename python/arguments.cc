#include "python/arguments.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "io/component/component_text.h"
#include "python/bind.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;

/// As a stub can have it.
std::string default_of(const nb::handle& value) {
  const std::string type = nb::inst_name(value).c_str();
  return type.find('.') == std::string::npos ? nb::repr(value).c_str() : "...";
}

/// nanobind's text has a default's number behind a backslash.
std::string with_defaults(std::string_view text, const nb::tuple& defaults) {
  std::string whole;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      whole += text[i];
      continue;
    }
    std::size_t number = 0;
    while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0)
      number = 10 * number + static_cast<std::size_t>(text[++i] - '0');
    whole += default_of(defaults[number]);
  }
  return whole;
}

}  // namespace

void check_names(const std::string& of, const nb::dict& given,
                 const std::vector<std::string>& names) {
  for (const auto& [key, value] : given)
    if (const auto name = nb::cast<std::string>(key); std::ranges::find(names, name) == names.end())
      throw nb::type_error((of + "() has no '" + name + "'" + or_names(name, names)).c_str());
}

std::string init_signature(const nb::object& make) {
  const nb::tuple overload = nb::cast<nb::tuple>(make.attr("__nb_signature__"))[0];
  const auto text = nb::cast<std::string>(overload[0]);
  const std::size_t begin = text.find('(') + 1;
  const std::string arguments =
      with_defaults(std::string_view(text).substr(begin, text.rfind(") ->") - begin),
                    nb::cast<nb::tuple>(overload[2]));
  return "def __init__(self" + (arguments.empty() ? "" : ", " + arguments) + ") -> None";
}

void bind_arguments(nb::module_& module) { module.def("_check_names", &check_names); }

}  // namespace millrace::python
