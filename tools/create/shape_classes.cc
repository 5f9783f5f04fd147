#include "tools/create/shape_classes.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

struct NamedColour {
  std::string_view name;
  Rgb rgb;
};

constexpr std::array<NamedColour, 8> kColours = {{{"red", {220, 50, 47}},
                                                  {"blue", {38, 110, 230}},
                                                  {"green", {60, 170, 60}},
                                                  {"yellow", {230, 200, 40}},
                                                  {"magenta", {211, 54, 180}},
                                                  {"cyan", {42, 190, 190}},
                                                  {"orange", {235, 130, 30}},
                                                  {"white", {240, 240, 240}}}};
static_assert(kMaxShapeClasses == kNumShapeKinds * static_cast<int>(kColours.size()));

const NamedColour& colour_of(int label) {
  return kColours[static_cast<std::size_t>(label / kNumShapeKinds)];
}

}  // namespace

ShapeKind shape_kind(int label) { return static_cast<ShapeKind>(label % kNumShapeKinds); }
Rgb shape_colour(int label) { return colour_of(label).rgb; }

std::string shape_class_name(int label) {
  return fmt::format("{} {}", colour_of(label).name, shape_kind_name(shape_kind(label)));
}

std::vector<std::string> shape_class_names(int classes) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(classes));
  for (int label = 0; label < classes; ++label) names.push_back(shape_class_name(label));
  return names;
}

void check_shape_classes(int classes) {
  if (classes >= 1 && classes <= kMaxShapeClasses) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("there are 1 to {} synthetic classes, not {}", kMaxShapeClasses, classes));
}

Rgb vary(const Rgb& colour, KeyedRng& rng) {
  const auto shift = static_cast<int>(rng.below(41)) - 20;
  return {colour[0] + shift, colour[1] + shift, colour[2] + shift};
}

Rgb ground_colour(KeyedRng& rng) {
  const auto level = [&] { return 60 + static_cast<int>(rng.below(61)); };
  return {level(), level(), level()};
}

}  // namespace millrace::tools
