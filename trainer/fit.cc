#include "trainer/fit.h"

#include <fmt/format.h>

#include "trainer/detail/fit_run.h"

namespace millrace::trainer {
namespace {

std::unique_ptr<Model> tie_layers(const FitInput& input, const Log& log) {
  auto tied = input.model.tied(input.tie);
  log.warn(fmt::format("The model has {} parameters before its layers are tied, {} after",
                       input.model.parameters().num_values(), tied->parameters().num_values()));
  return tied;
}

}  // namespace

FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers) {
  const std::unique_ptr<Model> tied = input.tie ? tie_layers(input, options.log) : nullptr;
  const FitInput settled{.model = tied ? *tied : input.model,
                         .objective = input.objective,
                         .train = input.train,
                         .validation = input.validation,
                         .devices = input.devices,
                         .backend = input.backend};
  return detail::FitRun(settled, options, observers).run();
}

}  // namespace millrace::trainer
