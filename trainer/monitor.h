// The measure that decides which epoch of a run is best ("val_top1"), for the run itself and for
// what is drawn of it later; and how measures' values are said.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace millrace::trainer {

/// The first of val_top1, val_miou and val_loss that is measured; train_loss if none is.
inline std::string default_monitor(const std::function<bool(const std::string&)>& is_measured) {
  for (const char* name : {"val_top1", "val_miou", "val_loss"})
    if (is_measured(name)) return name;
  return "train_loss";
}

/// Whether lower is better: for losses and errors.
inline bool less_is_better(std::string_view monitor) {
  const auto has = [&](std::string_view word) { return monitor.find(word) != monitor.npos; };
  return has("loss") || has("rmse") || has("error");
}

/// Whether a measure's values are shares, which people are told in percent: accuracies, IoU and
/// recalls, of any set ("val_top1", "iou/road").
inline bool is_share(std::string_view measure) {
  const auto has = [&](std::string_view word) { return measure.find(word) != measure.npos; };
  return has("top1") || has("top5") || has("iou") || has("accuracy") || measure.ends_with("_r1") ||
         measure.ends_with("_r5");
}

}  // namespace millrace::trainer
