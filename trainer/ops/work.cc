#include "trainer/ops/detail/work.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

constexpr std::string_view kOwnKernel = "millrace";

std::string_view type_name(DataType type) {
  if (type == DataType::f32) return "f32";
  return type == DataType::bf16 ? "bf16" : "u8";
}

// Axes from the one with the longest stride to the one with the shortest, capital if in blocks,
// then the blocks: oneDNN's way. An axis of one value has the stride of another one.
std::string order_text(const Desc& desc, std::string_view axes) {
  const Blocking blocking = blocking_of(desc);
  if (blocking.strides.empty()) return "packed";
  std::vector<std::size_t> order(blocking.strides.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Dims dims = dims_of(desc);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t axis) {
    return std::pair(blocking.strides[axis], dims[axis] > 1);
  });
  std::string text;
  for (const std::size_t axis : order) {
    const bool in_blocks = std::ranges::any_of(
        blocking.blocks, [&](const Block& block) { return block.axis == axis; });
    text += static_cast<char>(axes[axis] - (in_blocks ? 'a' - 'A' : 0));
  }
  for (const Block& block : blocking.blocks) text += std::to_string(block.size) + axes[block.axis];
  return text;
}

std::string typed_text(const Desc& desc, std::string_view axes) {
  return std::string(type_name(type_of(desc))) + ' ' + order_text(desc, axes);
}

}  // namespace

std::string_view weight_axes(const Desc& desc) {
  const std::size_t count = dims_of(desc).size();
  return count == 5 ? "goihw" : "oihw";
}

std::string layout_text(const Desc& from, const Desc& to, std::string_view axes) {
  if (type_of(from) != type_of(to)) return typed_text(from, axes) + " > " + typed_text(to, axes);
  const std::string first = order_text(from, axes);
  const std::string second = order_text(to, axes);
  return first == second ? first : first + " > " + second;
}

double bytes_of(const dnnl::memory& memory) {
  const Desc desc = memory.get_desc();
  const Dims dims = dims_of(desc);
  const auto values = std::accumulate(dims.begin(), dims.end(), 1.0, std::multiplies<>());
  return values * static_cast<double>(dnnl::memory::data_type_size(type_of(desc)));
}

Work call_work(const Context& context, Call call, nn::PlanStep about) {
  about.kernel = call.implementation();
  about.bytes = call.bytes();
  return {std::move(about), [call = std::move(call), &context](const Pass&) { call.run(context); }};
}

Work reorder_work(const Context& context, const dnnl::memory& from, const dnnl::memory& to,
                  std::string_view part, std::string_view axes) {
  return call_work(context, reorder_call(from, to),
                   {.kind = "reorder",
                    .part = std::string(part),
                    .layout = layout_text(from.get_desc(), to.get_desc(), axes)});
}

Work rounding_work(const dnnl::memory& memory, std::string_view part, std::string_view axes) {
  return {{.kind = "rounding",
           .part = std::string(part),
           .layout = order_text(memory.get_desc(), axes),
           .kernel = std::string(kOwnKernel),
           .bytes = 2 * bytes_of(memory)},
          [memory](const Pass&) { round_to_bfloat16(memory); }};
}

Work loop_work(std::string_view kind, const std::vector<dnnl::memory>& arrays,
               std::function<void(const Pass&)> run) {
  nn::PlanStep about{.kind = std::string(kind), .kernel = std::string(kOwnKernel)};
  for (const dnnl::memory& array : arrays) {
    if (!array) continue;
    if (about.layout.empty()) about.layout = order_text(array.get_desc(), kImageAxes);
    about.bytes += bytes_of(array);
  }
  return {std::move(about), std::move(run)};
}

}  // namespace millrace::trainer::ops
