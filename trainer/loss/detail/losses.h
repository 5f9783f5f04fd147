// One maker a loss; loss.cc holds the table of names.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// Mean of -log softmax(x)[y]; with smoothing e: (1 - e) nll + e / K sum of all classes' -log p.
std::unique_ptr<Loss> cross_entropy(const LossOptions& options);

}  // namespace millrace::trainer::losses
