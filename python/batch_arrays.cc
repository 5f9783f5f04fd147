#include "python/batch_arrays.h"

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "python/process_guard.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;
using decode::DType;
using Array = nb::ndarray<nb::array_api, nb::device::cpu>;

nb::dlpack::dtype dlpack_type(DType dtype, bool bits) {
  using Code = nb::dlpack::dtype_code;
  const auto of = [&](Code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code),
                             static_cast<std::uint8_t>(8 * decode::dtype_size(dtype)), 1};
  };
  switch (dtype) {
    case DType::kUInt8:
    case DType::kUInt16:
      return of(Code::UInt);
    case DType::kInt64:
      return of(Code::Int);
    case DType::kFloat32:
    case DType::kFloat16:
      return of(Code::Float);
    case DType::kBFloat16:
      return of(bits ? Code::UInt : Code::Bfloat);
  }
  return of(Code::UInt);
}

/// Keeps the batch as long as an array of it lives. What a forked child has of it is left as it is.
nb::capsule keeper_of(pipeline::Batch batch) {
  return {new pipeline::Batch(std::move(batch)), [](void* kept) noexcept {
            if (!ProcessGuard::is_forked_child()) delete static_cast<pipeline::Batch*>(kept);
          }};
}

nb::object array_of(void* data, nb::dlpack::dtype type, const std::vector<std::size_t>& shape,
                    const nb::capsule& keeper) {
  return nb::cast(Array(data, shape.size(), shape.data(), keeper, nullptr, type));
}

/// Names in a tar are bytes: what is not UTF-8 comes as os.fsdecode() has it.
nb::object text_of(std::string_view bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

nb::list values_of(const pipeline::RaggedField& field, bool text) {
  nb::list values;
  for (std::int64_t i = 0; i + 1 < static_cast<std::int64_t>(field.offsets.size()); ++i) {
    const std::string_view bytes = field.text(i);
    values.append(text ? text_of(bytes) : nb::bytes(bytes.data(), bytes.size()));
  }
  return values;
}

}  // namespace

nb::dict batch_arrays(pipeline::Batch batch, const BatchForm& form) {
  nb::dict arrays;
  const nb::capsule keeper = keeper_of(std::move(batch));
  auto& kept = *static_cast<pipeline::Batch*>(keeper.data());
  for (const pipeline::BatchField& field : kept.fields)
    arrays[field.name.c_str()] =
        array_of(field.data.data(), dlpack_type(field.spec.dtype, form.bits),
                 {field.spec.shape.begin(), field.spec.shape.end()}, keeper);
  for (const pipeline::RaggedField& field : kept.ragged)
    arrays[field.name.c_str()] = values_of(field, form.texts.contains(field.name));
  arrays["valid"] = array_of(kept.valid.data(), dlpack_type(DType::kUInt8, form.bits),
                             {kept.valid.size()}, keeper);
  nb::list keys;
  for (const std::string& key : kept.keys) keys.append(text_of(key));
  arrays["keys"] = keys;
  return arrays;
}

}  // namespace millrace::python
