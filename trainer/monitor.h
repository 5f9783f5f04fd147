// The measure that decides which epoch of a run is best ("val_top1"), for the run itself and for
// what is drawn of it later.
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

}  // namespace millrace::trainer
