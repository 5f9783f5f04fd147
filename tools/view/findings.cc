#include "tools/view/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace millrace::tools {
namespace {

constexpr float kDark = 24;
constexpr float kBright = 232;
constexpr float kEmpty = 3;
// As shares and multiples of the set's median.
constexpr float kBlurred = 0.125F;
constexpr double kOddAspect = 3;
constexpr double kOddArea = 16;
// A median of fewer pictures says nothing of what is usual.
constexpr std::size_t kLeastForMedian = 20;

bool is_empty(const SurveyedPicture& picture) { return picture.facts.contrast < kEmpty; }

/// Items that pairs connect.
class Chains {
 public:
  explicit Chains(std::size_t size) : parents_(size) {
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  }
  std::size_t root_of(std::size_t item) {
    while (parents_[item] != item) item = parents_[item] = parents_[parents_[item]];
    return item;
  }
  /// The earlier item is the root.
  void connect(std::size_t one, std::size_t other) {
    const std::size_t mine = root_of(one);
    const std::size_t theirs = root_of(other);
    parents_[std::max(mine, theirs)] = std::min(mine, theirs);
  }

 private:
  std::vector<std::size_t> parents_;
};

/// 16 of the 128 bits of the gradients. Of eight such bands, pictures that look alike share one.
std::uint64_t band_of(const SurveyedPicture& picture, std::size_t band) {
  return picture.facts.gradients[band / 4] >> (16 * (band % 4)) & 0xFFFF;
}
static_assert(kAlikeBits < 8);

/// Connects those among `order`, which share a band, that look alike.
void connect_alike(const PictureList& pictures, std::span<const std::size_t> order,
                   Chains& chains) {
  constexpr std::size_t kMostPairwise = 256;
  constexpr std::size_t kNeighbours = 32;
  const std::size_t reach = order.size() <= kMostPairwise ? order.size() : kNeighbours;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = i + 1; j < std::min(order.size(), i + 1 + reach); ++j)
      if (look_alike(pictures[order[i]]->facts, pictures[order[j]]->facts))
        chains.connect(order[i], order[j]);
}

void connect_by_band(const PictureList& pictures, std::size_t band, Chains& chains) {
  std::vector<std::size_t> order(pictures.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(band_of(*pictures[i], band), pictures[i]->facts.gradients);
  });
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from;
    while (to < order.size() &&
           band_of(*pictures[order[to]], band) == band_of(*pictures[order[from]], band))
      ++to;
    connect_alike(pictures, std::span(order).subspan(from, to - from), chains);
    from = to;
  }
}

/// Those of two or more, in the order of their first pictures.
template <typename Key>
std::vector<PictureList> groups_by(const PictureList& pictures,
                                   const std::function<Key(std::size_t)>& key_of) {
  std::map<Key, std::size_t> numbers;
  std::vector<PictureList> groups;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const auto [known, is_new] = numbers.try_emplace(key_of(i), groups.size());
    if (is_new) groups.emplace_back();
    groups[known->second].push_back(pictures[i]);
  }
  std::erase_if(groups, [](const PictureList& group) { return group.size() < 2; });
  return groups;
}

/// One of each set's copies of a file, without the empty ones.
PictureList distinct_files(const PictureList& pictures) {
  std::map<std::pair<std::uint32_t, std::array<std::uint64_t, 2>>, bool> met;
  PictureList distinct;
  for (const SurveyedPicture* picture : pictures)
    if (!is_empty(*picture) && met.try_emplace({picture->set, picture->facts.digest}).second)
      distinct.push_back(picture);
  return distinct;
}

bool is_one_file(const PictureList& group) {
  return std::ranges::all_of(group, [&](const SurveyedPicture* picture) {
    return picture->facts.digest == group.front()->facts.digest;
  });
}

double median_of(const PictureList& pictures, double (*value)(const SurveyedPicture&)) {
  std::vector<double> values;
  for (const SurveyedPicture* picture : pictures) values.push_back(value(*picture));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double brightness_of(const SurveyedPicture& picture) { return picture.facts.brightness; }
double sharpness_of(const SurveyedPicture& picture) { return picture.facts.sharpness; }
double aspect_of(const SurveyedPicture& picture) {
  return static_cast<double>(picture.facts.size.width) / std::max(1, picture.facts.size.height);
}
double area_of(const SurveyedPicture& picture) {
  return static_cast<double>(picture.facts.size.width) * picture.facts.size.height;
}

using Measure = std::function<double(const SurveyedPicture&)>;

/// The pictures that `belongs` says, by ascending `measure`.
PictureList chosen(const PictureList& pictures,
                   const std::function<bool(const SurveyedPicture&)>& belongs,
                   const Measure& measure) {
  PictureList some;
  for (const SurveyedPicture* picture : pictures)
    if (belongs(*picture)) some.push_back(picture);
  std::ranges::stable_sort(some, {},
                           [&](const SurveyedPicture* picture) { return measure(*picture); });
  return some;
}

Outliers dark(const PictureList& pictures) {
  return {
      .name = "Dark",
      .definition = fmt::format("Mean grey level below {} of 255, and not of one colour.", kDark),
      .pictures = chosen(
          pictures, [](const auto& one) { return !is_empty(one) && brightness_of(one) < kDark; },
          brightness_of)};
}

Outliers bright(const PictureList& pictures) {
  return {
      .name = "Bright",
      .definition = fmt::format("Mean grey level above {} of 255, and not of one colour.", kBright),
      .pictures = chosen(
          pictures, [](const auto& one) { return !is_empty(one) && brightness_of(one) > kBright; },
          [](const auto& one) { return -brightness_of(one); })};
}

Outliers empty(const PictureList& pictures) {
  return {
      .name = "Empty",
      .definition =
          fmt::format("Of one colour: grey levels deviate by less than {} of 255.", kEmpty),
      .pictures = chosen(pictures, is_empty, [](const auto& one) { return one.facts.contrast; })};
}

Outliers blurred(const PictureList& pictures) {
  const double usual = median_of(pictures, sharpness_of);
  return {
      .name = "Blurred",
      .definition =
          "Sharpness (the Laplacian's variance over the grey levels') below an "
          "eighth of the set's median.",
      .pictures = chosen(
          pictures,
          [&](const auto& one) { return !is_empty(one) && sharpness_of(one) < kBlurred * usual; },
          sharpness_of)};
}

Outliers odd_sized(const PictureList& pictures) {
  const double aspect = median_of(pictures, aspect_of);
  const double area = median_of(pictures, area_of);
  const auto away = [](double value, double usual) { return std::abs(std::log(value / usual)); };
  return {.name = "Odd-sized",
          .definition =
              fmt::format("Aspect ratio over {} times, or area over {} times, larger or smaller "
                          "than the set's median ({:.2f} and {:.0f} pixels).",
                          kOddAspect, kOddArea, aspect, area),
          .pictures = chosen(
              pictures,
              [&](const auto& one) {
                return away(aspect_of(one), aspect) > std::log(kOddAspect) ||
                       away(area_of(one), area) > std::log(kOddArea);
              },
              [&](const auto& one) {
                return -away(aspect_of(one), aspect) - away(area_of(one), area);
              })};
}

}  // namespace

PictureList pictures_of(std::span<SetSurvey> surveys) {
  int bits = 0;
  for (const SetSurvey& survey : surveys) bits = std::max(bits, survey.sampled_bits);
  PictureList all;
  for (SetSurvey& survey : surveys) {
    survey.sample_pictures(bits);
    for (const SurveyedPicture& picture : survey.pictures) all.push_back(&picture);
  }
  return all;
}

std::vector<PictureList> same_files(const PictureList& pictures) {
  return groups_by<std::array<std::uint64_t, 2>>(
      pictures, [&](std::size_t i) { return pictures[i]->facts.digest; });
}

std::vector<PictureList> of_several_classes(std::vector<PictureList> groups) {
  std::erase_if(groups, [](const PictureList& group) {
    std::set<std::int64_t> labels;
    for (const SurveyedPicture* picture : group)
      if (picture->label) labels.insert(*picture->label);
    return labels.size() < 2;
  });
  return groups;
}

std::vector<PictureList> look_alikes(const PictureList& pictures) {
  const PictureList distinct = distinct_files(pictures);
  Chains chains(distinct.size());
  for (std::size_t band = 0; band < 8; ++band) connect_by_band(distinct, band, chains);
  auto groups = groups_by<std::size_t>(distinct, [&](std::size_t i) { return chains.root_of(i); });
  std::erase_if(groups, is_one_file);
  return groups;
}

std::vector<PictureList> in_both_sets(std::vector<PictureList> groups) {
  std::erase_if(groups, [](const PictureList& group) {
    return std::ranges::all_of(
        group, [&](const SurveyedPicture* picture) { return picture->set == group.front()->set; });
  });
  return groups;
}

std::vector<Outliers> outliers(const PictureList& pictures) {
  std::vector<Outliers> all = {dark(pictures), bright(pictures), empty(pictures)};
  if (pictures.size() < kLeastForMedian) return all;
  all.push_back(blurred(pictures));
  all.push_back(odd_sized(pictures));
  return all;
}

}  // namespace millrace::tools
