// One factory function per loss; loss.cc has the table of names.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// Mean of -log softmax(x)[y]; with smoothing e: (1 - e) nll + e / K sum of all classes' -log p.
std::unique_ptr<Loss> cross_entropy(const LossOptions& options);

/// Logits (N, K, H, W), labels (N, H, W): over a slot's pixels that are not ignored, the mean of
/// (1 - e) w_y nll + e / K sum_k w_k (-log p_k), weighted by w_y, as PyTorch's; with `dice` d above
/// 0, plus d (1 - the mean over the slot's classes of (2 sum p y + 1) / (sum p + sum y + 1)), p the
/// softmax. The mean is over one slot, so that a loss does not depend on how a batch is divided; a
/// slot without counted pixels has loss 0.
std::unique_ptr<Loss> pixel_cross_entropy(const LossOptions& options);

/// Logits x, targets y in [0, 1]: mean of max(x, 0) - x y + log1p(exp(-|x|)).
std::unique_ptr<Loss> bce(const LossOptions& options);
/// Mean of |x - y|.
std::unique_ptr<Loss> l1(const LossOptions& options);
/// Mean of (x - y)^2.
std::unique_ptr<Loss> mse(const LossOptions& options);
/// Mean of |d| where |d| <= c, else (d^2 + c^2) / 2c, with d = x - y and c a fifth of the slot's
/// largest |d|, taken as a constant. Source: Laina et al., "Deeper depth prediction with fully
/// convolutional residual networks" (2016); there c is the batch's, with which a loss would depend
/// on how a batch is divided.
std::unique_ptr<Loss> berhu(const LossOptions& options);
/// 1 - (2 sum(p y) + 1) / (sum(p) + sum(y) + 1), p = sigmoid(x), over a slot's values. Source:
/// Milletari, Navab, Ahmadi, "V-Net" (2016), without squares.
std::unique_ptr<Loss> dice(const LossOptions& options);

}  // namespace millrace::trainer::losses
