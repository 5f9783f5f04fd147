// The table of transforms as Python classes, one for each line; class masks and limits.
#include "decode/transforms.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "decode/class_mask.h"
#include "decode/grey_values.h"
#include "decode/limits.h"
#include "decode/transforms/normalize.h"
#include "io/base/error.h"
#include "io/component/component_json.h"
#include "io/component/component_text.h"
#include "python/arguments.h"
#include "python/bind.h"
#include "python/struct_binding.h"
#include "python/transform_class.h"

namespace millrace::python {
namespace {

using namespace decode;

using ColourValue = std::pair<std::tuple<int, int, int>, std::int64_t>;

std::vector<ColourValue> colour_values(const ClassMask& mask) {
  std::vector<ColourValue> values;
  for (const ClassColour& colour : mask.colours) {
    const auto& [red, green, blue] = colour.rgb;
    values.push_back({{red, green, blue}, colour.label});
  }
  return values;
}

std::uint8_t channel_of(int value) {
  require(value >= 0 && value <= 255, "a colour is three numbers from 0 to 255");
  return static_cast<std::uint8_t>(value);
}

void set_colours(ClassMask& mask, const std::vector<ColourValue>& values) {
  mask.colours.clear();
  for (const auto& [rgb, label] : values) {
    const auto& [red, green, blue] = rgb;
    mask.colours.push_back({{channel_of(red), channel_of(green), channel_of(blue)}, label});
  }
}

// Values of Python as Written, and back.

Written written_of(nb::handle value);

Written written_list(nb::handle value) {
  Written list{.kind = Written::Kind::kList};
  for (const nb::handle one : value) list.items.push_back(written_of(one));
  return list;
}

Written written_of(nb::handle value) {
  using Kind = Written::Kind;
  TransformObject* nested = nullptr;
  if (value.is_none()) return {.kind = Kind::kNone, .text = "none"};
  if (PyBool_Check(value.ptr()))
    return {.kind = Kind::kBool, .text = nb::cast<bool>(value) ? "true" : "false"};
  if (nb::isinstance<nb::str>(value))
    return {.kind = Kind::kWord, .text = nb::cast<std::string>(value)};
  if (PyIndex_Check(value.ptr()))
    return {.kind = Kind::kNumber, .text = nb::str(nb::steal(PyNumber_Index(value.ptr()))).c_str()};
  if (nb::try_cast(value, nested)) return written(nested->transform);
  if (PySequence_Check(value.ptr()) != 0) return written_list(value);
  if (const nb::object number = nb::steal(PyNumber_Float(value.ptr())); number.is_valid())
    return {.kind = Kind::kNumber, .text = nb::repr(number).c_str()};
  PyErr_Clear();
  return {.kind = Kind::kWord, .text = nb::repr(value).c_str()};
}

/// `python`: ValueType::python(), which says whether 1 is 1.0.
nb::object python_value(const Written& value, const std::string& python) {
  using Kind = Written::Kind;
  const auto all = [&] {
    nb::list list;
    for (const Written& one : value.items) list.append(python_value(one, python));
    return list;
  };
  switch (value.kind) {
    case Kind::kNone:
      return nb::none();
    case Kind::kBool:
      return nb::bool_(value.text == "true");
    case Kind::kNumber:
      return nb::module_::import_("builtins")
          .attr(python.find("float") == std::string::npos ? "int" : "float")(value.text);
    case Kind::kWord:
      return nb::str(text(value).c_str());
    case Kind::kCall:
      return transform_object(decode::Transform(component_of(value, standard_transforms())));
    case Kind::kInterval:
      return nb::tuple(all());
    case Kind::kList:
      return python.find("Sequence[") != std::string_view::npos ? nb::object(all())
                                                                : nb::object(nb::tuple(all()));
  }
  return nb::none();
}

const Field& field_named(const std::vector<Field>& fields, std::string_view name) {
  return *std::ranges::find(fields, name, &Field::name);
}

nb::object attribute(const TransformObject& self, std::string_view name) {
  const StructType& type = self.transform.type();
  const Field field = field_named(type.fields(self.transform.value()), name);
  return python_value(field.type->write(field.value, ValueType::Form::kWhole),
                      field.type->python());
}

/// "RandomCrop(32, padding=4)".
std::string repr_of(const TransformObject& self) {
  const StructType& type = self.transform.type();
  const auto fields = type.fields(self.transform.value());
  const Written call = type.write(self.transform.value(), ValueType::Form::kShortest);
  std::string arguments;
  for (std::size_t i = 0; i < call.items.size(); ++i) {
    const Written& one = call.items[i];
    const Field& field = one.name.empty() ? fields[i] : field_named(fields, one.name);
    if (i > 0) arguments += ", ";
    if (!one.name.empty()) arguments += one.name + "=";
    arguments += nb::repr(python_value(one, field.type->python())).c_str();
  }
  return std::string(type.name().python) + "(" + arguments + ")";
}

// The classes.

/// Throws: type_error for arguments that the class does not have.
void check_arguments(const StructType& type, const nb::args& by_place, const nb::kwargs& by_name) {
  const std::string python(type.name().python);
  const auto fields = type.fields(type.usual());
  const auto most = static_cast<std::size_t>(std::ranges::count(fields, true, &Field::by_place));
  if (by_place.size() > most)
    throw nb::type_error((python + "() takes " + std::to_string(most) +
                          " without a name; its arguments are " + python_arguments(type).substr(6))
                             .c_str());
  std::vector<std::string> names;
  for (const Field& field : fields) names.emplace_back(field.name);
  check_names(python, by_name, names);
}

decode::Transform transform_of(const decode::TransformTable& table, const Component& usual,
                               const nb::args& by_place, const nb::kwargs& by_name) {
  const ComponentName& name = usual.type().name();
  check_arguments(usual.type(), by_place, by_name);
  Written call{.kind = Written::Kind::kCall, .text = std::string(name.word)};
  for (const nb::handle value : by_place) call.items.push_back(written_of(value));
  for (const auto& [key, value] : by_name) {
    call.items.push_back(written_of(value));
    call.items.back().name = nb::cast<std::string>(key);
  }
  try {
    return decode::Transform(component_of(call, table));
  } catch (const Error& error) {
    throw Error(error.code(), std::string(name.python) + ": " + error.message());
  }
}

/// As a type checker reads it, with the modules of its names.
std::string qualified(std::string types) {
  const std::pair<std::string_view, std::string_view> modules[] = {
      {"Sequence[", "collections.abc."}, {"Literal[", "typing."}};
  for (const auto& [name, module] : modules)
    for (std::size_t at = types.find(name); at != std::string::npos;
         at = types.find(name, at + module.size() + name.size()))
      types.insert(at, module);
  return types;
}

/// Of a value that was set: of a list also where a lone item is taken for one.
std::string held_type(const ValueType& type) {
  const std::string taken = type.python();
  const std::size_t list = taken.find("Sequence[");
  return qualified(list == std::string::npos ? taken : taken.substr(list));
}

std::string class_doc(const StructType& type) {
  std::string doc = std::string(type.name().sentence) + ".\n";
  for (const Field& field : type.fields(type.usual())) {
    const std::string range = field.range.text();
    doc += fmt::format("\n{}: {}{}.", field.name, field.sentence,
                       range.empty() ? "" : fmt::format(" ({})", range));
  }
  return doc;
}

void add_property(const nb::object& made, const Field& field) {
  const std::string name(field.name);
  const std::string signature = "def " + name + "(self) -> " + held_type(*field.type);
  const nb::object getter =
      nb::cpp_function([name](const TransformObject& self) { return attribute(self, name); },
                       nb::is_method(), nb::sig(signature.c_str()));
  made.attr(name.c_str()) =
      nb::module_::import_("builtins")
          .attr("property")(getter, nb::none(), nb::none(), std::string(field.sentence) + ".");
}

/// The class of one component: its arguments, attributes and documentation are the list's.
nb::object make_class(const nb::object& base, const decode::TransformTable& table,
                      const Component& usual) {
  const StructType& type = usual.type();
  nb::dict members;
  members["__doc__"] = class_doc(type);
  members["__module__"] = "millrace.transforms";
  nb::object made =
      nb::module_::import_("builtins")
          .attr("type")(std::string(type.name().python), nb::make_tuple(base), members);
  const std::string signature = "def __init__(" + qualified(python_arguments(type)) + ") -> None";
  made.attr("__init__") = nb::cpp_function(
      [&table, usual](TransformObject* self, const nb::args& by_place, const nb::kwargs& by_name) {
        new (self) TransformObject{transform_of(table, usual, by_place, by_name)};
      },
      nb::is_method(), nb::name("__init__"), nb::scope(made), nb::sig(signature.c_str()));
  for (const Field& field : type.fields(type.usual())) add_property(made, field);
  return made;
}

nb::object bind_base(nb::module_& module, const decode::TransformTable& table) {
  nb::class_<TransformObject> base(module, "Transform", "What is done to a picture.");
  base.def("__repr__", &repr_of);
  base.def(
      "__eq__",
      [](const TransformObject& self, const nb::object& other) {
        TransformObject* same = nullptr;
        return !other.is_none() && nb::try_cast(other, same) && self.transform == same->transform;
      },
      nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  base.def_prop_ro("_call", [](const TransformObject& self) { return text(self.transform); });
  base.def("__getstate__", [](const TransformObject& self) { return json_text(self.transform); });
  base.def("__setstate__", [&table](TransformObject& self, const std::string& state) {
    new (&self)
        TransformObject{decode::Transform(component_of(written_json(state, "a transform"), table))};
  });
  return base;
}

constexpr const char* kClasses = "_transforms";

void bind_table(nb::module_& module, const decode::TransformTable& table) {
  const nb::object base = bind_base(module, table);
  nb::dict classes;
  for (const Component& usual : table.all())
    classes[std::string(usual.type().name().python).c_str()] = make_class(base, table, usual);
  nb::cpp_function([] { return decode::Transform(Normalize::imagenet()); }, nb::name("imagenet"),
                   nb::scope(classes["Normalize"]), nb::sig("def imagenet() -> Normalize"),
                   "The mean and deviation of ImageNet.");
  module.attr(kClasses) = classes;
}

}  // namespace

nb::object transform_object(const decode::Transform& transform) {
  const nb::object classes = nb::module_::import_("millrace._core").attr(kClasses);
  const nb::object of = classes[std::string(transform.type().name().python).c_str()];
  nb::object made = nb::inst_alloc(of);
  new (nb::inst_ptr<TransformObject>(made)) TransformObject{transform};
  nb::inst_mark_ready(made);
  return made;
}

void bind_transforms(nb::module_& module) {
  bind_table(module, decode::standard_transforms());
  bind_struct<ClassMask, 0>(
      module, "ClassMask",
      "How the pixels of a mask are read as class numbers: the stored numbers, or by the table "
      "`colours`.",
      {}, member("ignore", &ClassMask::ignore, "The label of pixels that padding adds."),
      member("classes", &ClassMask::classes,
             "A label outside [0, classes) other than `ignore` is a fault; 0: none is."),
      member_as<std::vector<ColourValue>>(
          "colours", colour_values, set_colours,
          "((r, g, b), label) of each colour; none: pixels are their labels."));
  bind_struct<GreyValues, 0>(
      module, "GreyValues", "How the levels of a grey picture are read as numbers, such as depths.",
      {},
      member("one", &GreyValues::one,
             "The level that becomes 1. 0: the largest that the file's bits hold, 255 or 65535."),
      member("none", &GreyValues::none,
             "The level of pixels without a value, which becomes nan. -1: each pixel has one."));
  bind_struct<Limits, 0>(
      module, "Limits", "Upper bounds for what an encoded field may claim.", {},
      member("max_pixels", &Limits::max_pixels, "Pixels of a picture."),
      member("max_scans", &Limits::max_scans, "Scans of a progressive JPEG."),
      member("max_unpacked_bytes", &Limits::max_unpacked_bytes,
             "Bytes of what is compressed, once unpacked."),
      member("max_ratio", &Limits::max_ratio, "Unpacked bytes for each compressed one."));
}

}  // namespace millrace::python
