// The measure that decides which epoch of a run is best.
#pragma once

#include <string>
#include <vector>

#include "trainer/events.h"

namespace millrace::trainer::detail {

/// `wanted`, or if it is empty val_top1, val_miou, val_loss or train_loss, the first that is
/// measured. Throws: InvalidArgument for one that is not measured, with the list.
std::string resolve_monitor(const std::string& wanted, const std::vector<std::string>& measures,
                            bool has_validation);

/// The monitored value of an epoch ("val_top1" is event.val's "top1"); NaN if it has none.
double monitored_value(const std::string& monitor, const EpochEvent& event);

/// Whether lower is better: for losses and errors.
bool less_is_better(const std::string& monitor);

}  // namespace millrace::trainer::detail
