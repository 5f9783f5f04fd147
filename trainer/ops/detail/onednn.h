// What all oneDNN operations share: the engine, the settings of one plan, a prepared call.
//
// Nothing outside trainer/ops names oneDNN; what its versions spell differently is in primitives.h.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "trainer/ops/detail/image_layout.h"

namespace millrace::trainer::ops {

using Desc = dnnl::memory::desc;
using DataType = dnnl::memory::data_type;
using FormatTag = dnnl::memory::format_tag;

/// Engine, stream, number formats and layout of a plan's operations.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  DataType type = DataType::f32;   ///< of activations and prepared weights
  bool round_to_bfloat16 = false;  ///< type is f32, and results are rounded to bf16
  ImageLayout layout = {};
  std::int64_t batch_size = 1;

  Desc image(const std::vector<std::int64_t>& shape) const { return image(shape, type); }
  Desc image(const std::vector<std::int64_t>& shape, DataType other_type) const {
    const FormatTag blocks = layout.block == 16 ? FormatTag::aBcd16b : FormatTag::aBcd8b;
    return {{batch_size, shape[0], shape[1], shape[2]},
            other_type,
            layout.channels_last() ? FormatTag::acdb : blocks};
  }
  Desc features(std::int64_t count) const { return {{batch_size, count}, type, FormatTag::ab}; }
};

/// A primitive with its arguments. Unlike primitive::execute() a run allocates nothing.
class Call {
 public:
  Call() = default;
  Call(const dnnl::primitive& primitive,
       std::initializer_list<std::pair<int, dnnl::memory>> arguments);

  explicit operator bool() const { return static_cast<bool>(primitive_); }
  void run(const Context& context) const;
  /// oneDNN's name of the code that computes it.
  std::string implementation() const;
  /// Of the values of its arguments, without the scratchpad.
  double bytes() const { return bytes_; }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  double bytes_ = 0;
};

/// Copies `from` to `to`, changing layout and type.
Call reorder_call(const dnnl::memory& from, const dnnl::memory& to);

}  // namespace millrace::trainer::ops
