#include "trainer/loss/image_losses.h"

#include <Eigen/Core>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/slot_loss.h"

namespace millrace::trainer::losses {
namespace {

using Map = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMap = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// One channel of a slot.
struct Channel {
  Eigen::Map<const FloatMap> x;
  Eigen::Map<const FloatMap> y;
};

/// Calls visit(channel, its gradient's map) for each channel; without a gradient the map is empty.
template <typename Visit>
void for_each_channel(const LossSlot& slot, const Visit& visit) {
  const Eigen::Index rows = slot.shape[1];
  const Eigen::Index columns = slot.shape[2];
  const bool trains = !slot.gradient.empty();
  for (Eigen::Index c = 0; c < slot.shape[0]; ++c) {
    const Eigen::Index at = c * rows * columns;
    visit(Channel{{slot.prediction.data() + at, rows, columns},
                  {slot.target.data() + at, rows, columns}},
          Eigen::Map<FloatMap>(trains ? slot.gradient.data() + at : nullptr, trains ? rows : 0,
                               trains ? columns : 0));
  }
}

/// Differences of neighbours along one axis, as two sums over pairs: of their magnitudes, and of
/// the pairs; each counts once, in `slopes`, by its sign.
struct Pairs {
  double sum = 0;
  double count = 0;

  /// `next` and `here` are the same values, one place apart; NaN where there is no target.
  template <typename Next, typename Here, typename To, typename From>
  void add(const Next& next, const Here& here, To&& to, From&& from) {
    const Map difference = next - here;
    const auto counts = !difference.isNaN();
    sum += counts.select(difference.abs(), 0.0).sum();
    count += static_cast<double>(counts.count());
    const Map sign = counts.select(difference.sign(), 0.0);
    to += sign;
    from -= sign;
  }
  double share() const { return count > 0 ? 1.0 / count : 0.0; }
};

/// NaN where there is no target.
Map error_of(const Channel& of) { return of.x.cast<double>() - of.y.cast<double>(); }

double gradient_slot(const LossSlot& slot) {
  Pairs across;
  Pairs down;
  std::vector<Map> slopes_across;
  std::vector<Map> slopes_down;
  for_each_channel(slot, [&](const Channel& channel, const auto&) {
    const Map d = error_of(channel);
    const Eigen::Index rows = d.rows() - 1;
    const Eigen::Index columns = d.cols() - 1;
    Map& a = slopes_across.emplace_back(Map::Zero(d.rows(), d.cols()));
    Map& b = slopes_down.emplace_back(a);
    across.add(d.rightCols(columns), d.leftCols(columns), a.rightCols(columns),
               a.leftCols(columns));
    down.add(d.bottomRows(rows), d.topRows(rows), b.bottomRows(rows), b.topRows(rows));
  });
  std::size_t c = 0;
  const auto scale = static_cast<double>(slot.scale);
  for_each_channel(slot, [&](const Channel&, Eigen::Map<FloatMap> gradient) {
    if (gradient.size() > 0)
      gradient = (scale * (across.share() * slopes_across[c] + down.share() * slopes_down[c]))
                     .cast<float>();
    ++c;
  });
  return across.sum * across.share() + down.sum * down.share();
}

/// One direction of the same in StableHLO: `dimension` is 2 or 3.
class PairsProgram {
 public:
  PairsProgram(const hlo::Tensor& error, const hlo::Tensor& flags, std::int64_t dimension)
      : error_(error), dimension_(dimension) {
    const hlo::Tensor difference = ends(error).next - ends(error).here;
    counts_ = hlo::both(ends(flags).next, ends(flags).here);
    difference_ = hlo::select(counts_, difference, 0.0);
    number_ = hlo::max(hlo::sum_of_slots(hlo::float32(counts_)), 1.0);
  }

  hlo::Tensor loss() const { return hlo::sum_of_slots(hlo::abs(difference_)) / number_; }
  hlo::Tensor gradient() const {
    const hlo::Tensor slope = hlo::sign(difference_) / hlo::to_slots(number_, difference_.shape);
    return padded(slope, {1, 0}) - padded(slope, {0, 1});
  }

 private:
  struct Ends {
    hlo::Tensor next, here;
  };
  Ends ends(const hlo::Tensor& x) const {
    const std::int64_t size = x.shape[static_cast<std::size_t>(dimension_)];
    return {hlo::slice(x, dimension_, 1, size), hlo::slice(x, dimension_, 0, size - 1)};
  }
  hlo::Tensor padded(const hlo::Tensor& x, std::array<std::int64_t, 2> edges) const {
    hlo::Padding padding{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    padding.low[static_cast<std::size_t>(dimension_)] = edges[0];
    padding.high[static_cast<std::size_t>(dimension_)] = edges[1];
    return hlo::pad(x, padding);
  }

  hlo::Tensor error_;
  std::int64_t dimension_;
  hlo::Tensor counts_, difference_, number_;
};

hlo::LossResults gradient_program(const hlo::LossArguments& of) {
  const hlo::CountedTensor only = hlo::counted(of.target);
  const hlo::Tensor error = of.prediction - only.target;
  std::vector<PairsProgram> directions;
  for (const std::int64_t dimension : {3, 2})
    if (error.shape[static_cast<std::size_t>(dimension)] > 1)
      directions.emplace_back(error, only.flags, dimension);
  const auto total = [directions, error](const auto& part, const hlo::Tensor& none) {
    hlo::Tensor sum = none;
    for (const PairsProgram& one : directions) sum = sum + part(one);
    return sum;
  };
  const hlo::Tensor no_loss =
      hlo::splat(*error.builder, 0.0, hlo::Type::kFloat32, {error.shape[0]});
  return {.loss = total([](const PairsProgram& one) { return one.loss(); }, no_loss),
          .gradient = [total, error] {
            return total([](const PairsProgram& one) { return one.gradient(); },
                         hlo::splat_like(error, 0.0));
          }};
}

constexpr double kDeviation = 1.5;

/// A window's weights along one side; their sum is 1.
std::vector<double> window_of(const Ssim& of) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < of.window; ++i) {
    const auto distance = static_cast<double>(i - of.window / 2);
    weights.push_back(std::exp(-distance * distance / (2 * kDeviation * kDeviation)));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

void check_window(const Ssim& of, std::span<const std::int64_t> image) {
  const std::int64_t height = image[image.size() - 2];
  const std::int64_t width = image[image.size() - 1];
  if (height >= of.window && width >= of.window) return;
  throw Error(ErrorCode::kInvalidArgument, "ssim's window of " + std::to_string(of.window) +
                                               " pixels is larger than images of " +
                                               std::to_string(height) + " x " +
                                               std::to_string(width));
}

/// What both implementations add to a window's products.
struct SsimConstants {
  double of_means;
  double of_variances;

  explicit SsimConstants(const Ssim& of)
      : of_means(std::pow(0.01 * of.range, 2)), of_variances(std::pow(0.03 * of.range, 2)) {}
};

class SsimFunction {
 public:
  explicit SsimFunction(const Ssim& of) : of_(of), weights_(window_of(of)), constants_(of) {}

  double operator()(const LossSlot& slot) const {
    check_window(of_, slot.shape);
    double sum = 0;
    double count = 0;
    std::vector<Map> slopes;
    for_each_channel(slot, [&](const Channel& channel, const auto& gradient) {
      add(channel, gradient.size() > 0 ? &slopes : nullptr, sum, count);
    });
    const double share = count > 0 ? 1.0 / count : 0.0;
    const double scale = -share * static_cast<double>(slot.scale);
    std::size_t c = 0;
    for_each_channel(slot, [&](const Channel&, Eigen::Map<FloatMap> gradient) {
      if (gradient.size() > 0) gradient = (scale * slopes[c++]).template cast<float>();
    });
    return count > 0 ? 1 - sum * share : 0.0;
  }

 private:
  Eigen::Index side() const { return static_cast<Eigen::Index>(weights_.size()); }

  /// The weighted mean of each window that lies within the map.
  Map blurred(const Map& map) const {
    const Eigen::Index rows = map.rows() - side() + 1;
    const Eigen::Index columns = map.cols() - side() + 1;
    Map across = Map::Zero(map.rows(), columns);
    for (Eigen::Index k = 0; k < side(); ++k) across += weight(k) * map.middleCols(k, columns);
    Map all = Map::Zero(rows, columns);
    for (Eigen::Index k = 0; k < side(); ++k) all += weight(k) * across.middleRows(k, rows);
    return all;
  }
  /// Each window's value, spread over its places by their weights.
  Map spread(const Map& windows) const {
    Map down = Map::Zero(windows.rows() + side() - 1, windows.cols());
    for (Eigen::Index k = 0; k < side(); ++k)
      down.middleRows(k, windows.rows()) += weight(k) * windows;
    Map all = Map::Zero(down.rows(), windows.cols() + side() - 1);
    for (Eigen::Index k = 0; k < side(); ++k) all.middleCols(k, windows.cols()) += weight(k) * down;
    return all;
  }
  double weight(Eigen::Index k) const { return weights_[static_cast<std::size_t>(k)]; }

  /// Adds a channel's windows; appends d (sum of SSIM) / d x to `slopes`, if there are any.
  void add(const Channel& channel, std::vector<Map>* slopes, double& sum, double& count) const {
    const Map x = channel.x.cast<double>();
    const auto missing = channel.y.isNaN();
    const Map y = missing.select(0.0, channel.y.cast<double>());
    const Map mean_x = blurred(x);
    const Map mean_y = blurred(y);
    const Map means = 2 * mean_x * mean_y + constants_.of_means;
    const Map covariance = 2 * (blurred(x * y) - mean_x * mean_y) + constants_.of_variances;
    const Map squares = mean_x.square() + mean_y.square() + constants_.of_means;
    const Map variances = blurred(x.square()) + blurred(y.square()) - mean_x.square() -
                          mean_y.square() + constants_.of_variances;
    // A window without all targets counts for nothing.
    const Map counts = (blurred(missing.template cast<double>()) == 0.0).template cast<double>();
    const Map similarity = counts * means * covariance / (squares * variances);
    sum += similarity.sum();
    count += counts.sum();
    if (slopes == nullptr) return;
    // By x, the mean of x, and the means of x^2 and of x y.
    const Map by_mean = 2 * counts * mean_y * (covariance - means) / (squares * variances) +
                        2 * mean_x * similarity * (1 / variances - 1 / squares);
    slopes->push_back(spread(by_mean) - 2 * x * spread(similarity / variances) +
                      2 * y * spread(counts * means / (squares * variances)));
  }

  Ssim of_;
  std::vector<double> weights_;
  SsimConstants constants_;
};

/// The same in StableHLO, for all channels of all slots as images of one channel.
class SsimProgram {
 public:
  SsimProgram(const Ssim& of, const hlo::LossArguments& at)
      : shape_(at.prediction.shape), weights_(window_of(of)) {
    const SsimConstants constants(of);
    const hlo::CountedTensor only = hlo::counted(at.target);
    x_ = as_images(at.prediction);
    y_ = as_images(only.target);
    mean_x_ = blurred(x_);
    mean_y_ = blurred(y_);
    means_ = 2.0 * mean_x_ * mean_y_ + constants.of_means;
    covariance_ = 2.0 * (blurred(x_ * y_) - mean_x_ * mean_y_) + constants.of_variances;
    const hlo::Tensor squares_of_means = mean_x_ * mean_x_ + mean_y_ * mean_y_;
    squares_ = squares_of_means + constants.of_means;
    variances_ = blurred(x_ * x_ + y_ * y_) - squares_of_means + constants.of_variances;
    const hlo::Tensor missing = 1.0 - as_images(hlo::float32(only.flags));
    counts_ = hlo::float32(hlo::compare(blurred(missing), hlo::Order::kEqual, 0.0));
    similarity_ = counts_ * means_ * covariance_ / (squares_ * variances_);
    number_ = of_slots(counts_);
  }

  hlo::Tensor loss() const {
    const hlo::Tensor mean = of_slots(similarity_) / hlo::max(number_, 1.0);
    return hlo::select(hlo::compare(number_, hlo::Order::kGreater, 0.0), 1.0 - mean, 0.0);
  }

  hlo::Tensor gradient() const {
    const hlo::Tensor under = squares_ * variances_;
    const hlo::Tensor by_mean = 2.0 * counts_ * mean_y_ * (covariance_ - means_) / under +
                                2.0 * mean_x_ * similarity_ * (1.0 / variances_ - 1.0 / squares_);
    const hlo::Tensor slope = spread(by_mean) - 2.0 * x_ * spread(similarity_ / variances_) +
                              2.0 * y_ * spread(counts_ * means_ / under);
    const hlo::Tensor share = -1.0 / hlo::max(number_, 1.0);
    return hlo::reshape(slope, shape_) * hlo::to_slots(share, shape_);
  }

 private:
  hlo::Tensor as_images(const hlo::Tensor& x) const {
    return hlo::reshape(x, {shape_[0] * shape_[1], shape_[2], shape_[3], 1});
  }
  /// The sum over each slot's windows.
  hlo::Tensor of_slots(const hlo::Tensor& windows) const {
    const hlo::Tensor each = hlo::sum(windows, {1, 2, 3});
    return hlo::sum(hlo::reshape(each, {shape_[0], shape_[1]}), {1});
  }
  hlo::Tensor blurred(const hlo::Tensor& x) const { return filtered(x, 0); }
  /// The window is symmetric.
  hlo::Tensor spread(const hlo::Tensor& x) const {
    return filtered(x, static_cast<std::int64_t>(weights_.size()) - 1);
  }
  hlo::Tensor filtered(const hlo::Tensor& x, std::int64_t edge) const {
    const auto side = static_cast<std::int64_t>(weights_.size());
    const std::vector<float> values(weights_.begin(), weights_.end());
    const hlo::Tensor across = hlo::constant(*x.builder, values, {1, 1, 1, side});
    const hlo::Tensor down = hlo::constant(*x.builder, values, {1, 1, side, 1});
    const hlo::Tensor rows = hlo::convolution(x, across, {.low = {0, edge}, .high = {0, edge}});
    return hlo::convolution(rows, down, {.low = {edge, 0}, .high = {edge, 0}});
  }

  hlo::Shape shape_;
  std::vector<double> weights_;
  hlo::Tensor x_, y_, mean_x_, mean_y_, means_, covariance_, squares_, variances_, counts_;
  hlo::Tensor similarity_, number_;
};

hlo::LossResults ssim_program(const Ssim& of, const hlo::LossArguments& at) {
  check_window(of, at.prediction.shape);
  const SsimProgram program(of, at);
  return {.loss = program.loss(), .gradient = [program] { return program.gradient(); }};
}

}  // namespace

const ComponentName Gradient::kName = {
    "gradient", "Gradient", "Mean difference of neighbours' errors, in rows and columns"};
const ComponentName Ssim::kName = {"ssim", "Ssim", "1 - structural similarity of images"};

std::unique_ptr<Loss> Gradient::make() const {
  return make_image_loss("gradient", gradient_slot, gradient_program);
}

void Ssim::fields(FieldList& field) {
  field("window", window, {.min = 3, .max = 255, .unit = "px"}, "Side of its windows, odd");
  field("range", range, {.min = 0, .open_min = true}, "From the least to the largest target");
}

void Ssim::check() const { require(window % 2 == 1, "window is odd, such as 11"); }

std::unique_ptr<Loss> Ssim::make() const {
  return make_image_loss("ssim", SsimFunction(*this), [of = *this](const hlo::LossArguments& at) {
    return ssim_program(of, at);
  });
}

}  // namespace millrace::trainer::losses
