// The classes of synthetic pictures: pairs of shape and colour ("red disc"), and helpers shared by
// all kinds of synthetic pictures.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/rng.h"
#include "tools/create/canvas.h"

namespace millrace::tools {

/// Labels are 0 to kMaxShapeClasses - 1.
inline constexpr int kMaxShapeClasses = kNumShapeKinds * 8;

ShapeKind shape_kind(int label);
Rgb shape_colour(int label);
/// "red disc".
std::string shape_class_name(int label);
std::vector<std::string> shape_class_names(int classes);
/// Throws: InvalidArgument if there are not that many.
void check_shape_classes(int classes);

/// `colour`, slightly brighter or darker.
Rgb vary(const Rgb& colour, KeyedRng& rng);
/// A dull background colour.
Rgb ground_colour(KeyedRng& rng);

}  // namespace millrace::tools
