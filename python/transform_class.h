// A decode::Transform in Python: an object of the class that its component is called.
//
// Threads: as values; the GIL is held.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "decode/transforms.h"

namespace millrace::python {

/// What an object of millrace.Transform holds.
struct TransformObject {
  decode::Transform transform;
};

/// The object of a transform, of its own class. Throws: as Python does.
nanobind::object transform_object(const decode::Transform& transform);

}  // namespace millrace::python

namespace nanobind::detail {

template <>
struct type_caster<millrace::decode::Transform> {
  using Value = millrace::decode::Transform;
  using Holder = make_caster<millrace::python::TransformObject>;
  static constexpr auto Name = Holder::Name;
  template <typename T>
  using Cast = movable_cast_t<T>;

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    Holder holder;
    if (source.is_none() || !holder.from_python(source, flags, cleanup) ||
        !holder.template can_cast<Held*>())
      return false;
    value = holder.operator Held*()->transform;
    return true;
  }
  static handle from_cpp(const Value& transform, rv_policy /*policy*/,
                         cleanup_list* /*cleanup*/) noexcept {
    try {
      return millrace::python::transform_object(transform).release();
    } catch (python_error& error) {
      error.restore();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return {};
  }
  template <typename T>
  bool can_cast() const noexcept {
    return value.has_value();
  }
  explicit operator Value*() { return &*value; }
  explicit operator Value&() { return *value; }
  explicit operator Value&&() { return std::move(*value); }

 private:
  using Held = millrace::python::TransformObject;
  std::optional<Value> value;
};

}  // namespace nanobind::detail
