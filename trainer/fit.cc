#include "trainer/fit.h"

#include "trainer/detail/fit_run.h"

namespace millrace::trainer {

FitResult fit(const FitInput& input, const TrainOptions& options,
              const std::vector<Observer*>& observers) {
  return detail::FitRun(input, options, observers).run();
}

}  // namespace millrace::trainer
