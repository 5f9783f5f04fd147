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

FitResult fit_as_it_is(const FitInput& input, const TrainOptions& options,
                       const std::vector<Observer*>& observers) {
  return detail::FitRun(input, options, observers).run();
}

}  // namespace

FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers) {
  if (!input.tie) return fit_as_it_is(input, options, observers);
  const std::unique_ptr<Model> tied = tie_layers(input, options.log);
  return fit_as_it_is({.model = *tied,
                       .objective = input.objective,
                       .train = input.train,
                       .validation = input.validation,
                       .devices = input.devices},
                      options, observers);
}

}  // namespace millrace::trainer
