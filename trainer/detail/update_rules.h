// One factory function per rule; update_rule.cc has the table of names. Each throws InvalidArgument
// for options that contradict each other.
#pragma once

#include <memory>

#include "trainer/update_rule.h"

namespace millrace::trainer::rules {

/// g = scale * gradient + decay * w; buf = momentum * buf + (1 - dampening) * g, on the first step
/// g; w -= lr * buf, with Nesterov lr * (g + momentum * buf).
std::unique_ptr<UpdateRule> sgd(const OptimizerOptions& options);

/// m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g^2;
/// w -= lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon). Source: Kingma and Ba, "Adam: a
/// method for stochastic optimization" (2015), decay added to the gradient as in torch.optim.Adam.
std::unique_ptr<UpdateRule> adam(const OptimizerOptions& options);
/// Adam with w *= 1 - lr * decay instead. Source: Loshchilov and Hutter, "Decoupled weight decay
/// regularization" (2019).
std::unique_ptr<UpdateRule> adamw(const OptimizerOptions& options);

/// SGD with a rate for each layer, which is applied before the momentum buffer, not after it:
/// buf = momentum * buf + lr * trust * |w| / (|g| + decay * |w|) * (g + decay * w); w -= buf.
/// Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks" (2017).
std::unique_ptr<UpdateRule> lars(const OptimizerOptions& options);

}  // namespace millrace::trainer::rules
