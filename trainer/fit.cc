#include "trainer/fit.h"

#include <fmt/format.h>

#include <optional>

#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/fit_run.h"
#include "trainer/detail/loop/fit_start.h"
#include "trainer/detail/loop/trace_observer.h"
#include "trainer/same_data.h"

namespace millrace::trainer {
namespace {

std::unique_ptr<Model> tie_layers(const FitInput& input, const Log& log) {
  auto tied = input.model.tied(input.tie);
  log.warn(fmt::format("The model has {} parameters before its layers are tied, {} after",
                       input.model.parameters().num_values(), tied->parameters().num_values()));
  return tied;
}

void check_data(detail::Processes& processes, const FitInput& input) {
  if (processes.is_alone()) return;
  check_same_data(processes.cluster(), "training set", input.train.identity());
  if (input.validation != nullptr)
    check_same_data(processes.cluster(), "validation set", input.validation->identity());
}

FitResult fit_in(detail::Processes& processes, const FitInput& input, const TrainOptions& given,
                 const std::vector<Observer*>& observers) {
  const TrainOptions options = detail::settle_options(processes, input, given);
  check_data(processes, input);
  const std::unique_ptr<Model> tied = input.tie ? tie_layers(input, options.log) : nullptr;
  const std::unique_ptr<Model> tied_evaluation = input.tie && input.evaluation_model != nullptr
                                                     ? input.evaluation_model->tied(input.tie)
                                                     : nullptr;
  const FitInput settled{
      .model = tied ? *tied : input.model,
      .objective = input.objective,
      .train = input.train,
      .validation = input.validation,
      .start = input.start,
      .evaluation_model = tied_evaluation ? tied_evaluation.get() : input.evaluation_model,
      .devices = input.devices,
      .backend = input.backend};
  std::vector<Observer*> told = processes.is_first() ? observers : std::vector<Observer*>();
  std::optional<detail::TraceObserver> trace;
  if (options.trace != nullptr) told.push_back(&trace.emplace(*options.trace));
  detail::FitRun run(processes, settled, options, told);
  return run.run();
}

}  // namespace

FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers) {
  detail::Processes processes(input.cluster, input.devices.size());
  return processes.guard([&] { return fit_in(processes, input, options, observers); });
}

}  // namespace millrace::trainer
