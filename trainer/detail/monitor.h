// The measure by which a run's epochs are compared.
#pragma once

#include <string>
#include <vector>

#include "trainer/events.h"

namespace millrace::trainer::detail {

/// `wanted`, or when that is empty val_top1, val_miou, val_loss or train_loss, the first that is
/// measured. Throws: InvalidArgument for one that is not, naming those that are.
std::string resolve_monitor(const std::string& wanted, const std::vector<std::string>& measures,
                            bool has_validation);

/// The monitored value of an epoch: "val_top1" is event.val's "top1".
double monitored_value(const std::string& monitor, const EpochEvent& event);

/// Whether less is better: losses and errors.
bool less_is_better(const std::string& monitor);

}  // namespace millrace::trainer::detail
