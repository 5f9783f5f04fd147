// Work: one thing that an op does, and what a plan tells of it. A pass is a list of these: so
// nothing is done that the plan does not name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/nn/plan_step.h"
#include "trainer/ops/detail/onednn.h"

namespace millrace::trainer::ops {

struct Pass;

struct Work {
  nn::PlanStep about;  ///< layer, shapes and pass are the plan's to fill in
  std::function<void(const Pass&)> run;
};
using Works = std::vector<Work>;

/// The letters of an array's axes.
inline constexpr std::string_view kImageAxes = "nchw";
std::string_view weight_axes(const Desc& desc);

/// "nChw16c"; "f32 nhwc > bf16 nChw16c" if they differ.
std::string layout_text(const Desc& from, const Desc& to, std::string_view axes = kImageAxes);
/// Of the values, without padding.
double bytes_of(const dnnl::memory& memory);

/// The primitive's name and bytes are added to `about`. Lifetime: `context` is the plan's.
Work call_work(const Context& context, Call call, nn::PlanStep about);
/// reorder_call() as work of `part`.
Work reorder_work(const Context& context, const dnnl::memory& from, const dnnl::memory& to,
                  std::string_view part = {}, std::string_view axes = kImageAxes);
/// Values rounded to bf16 in place.
Work rounding_work(const dnnl::memory& memory, std::string_view part = {},
                   std::string_view axes = kImageAxes);
/// A loop of millrace's own over `arrays`, null ones left out; the layout is the first's.
Work loop_work(std::string_view kind, const std::vector<dnnl::memory>& arrays,
               std::function<void(const Pass&)> run);

}  // namespace millrace::trainer::ops
