// A schedule of one's own: falls to `to` along a polynomial. Source: timm's PolyLRScheduler and
// torch.optim.lr_scheduler.PolynomialLR.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "millrace/io/component/component_text.h"
#include "millrace/trainer/schedule.h"
#include "small_run.h"

namespace mr = millrace::trainer;

struct Polynomial {
  double power = 1.0;
  double to = 0.0;
  mr::Pace pace = {};

  static constexpr millrace::ComponentName kName = {"polynomial", "Polynomial",
                                                    "Falls along a polynomial"};
  void fields(millrace::FieldList& field) {
    field("power", power, {.min = 0, .open_min = true}, "Its power");
    field("to", to, {.min = 0}, "Rate at the end");
    pace.fields(field);
  }
  std::unique_ptr<mr::RateCurve> make() const {
    return mr::make_curve(pace, [*this](const mr::RunRate& run, double epochs_done) {
      const double left = std::max(0.0, 1.0 - run.share(epochs_done));
      return to + (run.base_lr - to) * std::pow(left, power);
    });
  }
};

int main() {
  auto schedules = mr::standard_schedules();
  schedules.add<Polynomial>();
  const mr::ScheduleChoice choice =
      millrace::parse("polynomial(2, to=0.01, by=step)", schedules).front();
  const mr::Schedule schedule(choice, {.base_lr = 0.05, .epochs = 4});
  const float middle = schedule.lr({.epoch = 2, .step = 0, .steps_per_epoch = 10});
  const auto losses = small_run({.epochs = 4, .schedule = choice});
  std::printf(
      "own schedule: rate %.3f in the middle; loss %.3f in the first epoch, %.3f in the last\n",
      static_cast<double>(middle), losses.front(), losses.back());
  const bool falls = losses.size() == 4 && losses.back() < losses.front();
  return falls && std::abs(middle - 0.02F) < 1e-6F ? 0 : 1;
}
