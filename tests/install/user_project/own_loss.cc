// A loss of one's own: squared near the target, straight beyond. Source: Huber, "Robust estimation
// of a location parameter" (1964).
#include <cmath>
#include <cstdio>
#include <memory>

#include "millrace/io/component/component_text.h"
#include "millrace/trainer/loss/slot_loss.h"
#include "small_run.h"

namespace mr = millrace::trainer;

struct Huber {
  float delta = 1.0F;

  static constexpr millrace::ComponentName kName = {"huber", "Huber",
                                                    "Squared error, then absolute"};
  void fields(millrace::FieldList& field) {
    field("delta", delta, {.min = 0, .open_min = true}, "Where the line begins");
  }
  std::unique_ptr<mr::Loss> make() const {
    return mr::make_value_loss("huber", [d = delta](float x, float y) -> mr::LossPoint {
      const float error = x - y;
      if (std::abs(error) <= d) return {.loss = error * error / 2, .slope = error};
      return {.loss = d * (std::abs(error) - d / 2), .slope = std::copysign(d, error)};
    });
  }
};

int main() {
  auto table = mr::standard_losses();
  table.add<Huber>();
  const mr::LossChoice loss = millrace::parse("huber(0.5)", table).front();
  const auto losses = small_run({.epochs = 6, .optimizer = {.rule = mr::Sgd{.lr = 0.1}}}, nullptr,
                                linear_layer(), {.loss = loss, .target = "target"});
  std::printf("%s: loss %.4f in the first epoch, %.4f in the last\n", millrace::text(loss).c_str(),
              losses.front(), losses.back());
  return losses.size() == 6 && losses.back() < losses.front() / 2 ? 0 : 1;
}
