// The classes of made-up pictures: a pair of shape and colour each ("red disc"), and what all kinds
// of made-up pictures share.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/rng.h"
#include "tools/create/canvas.h"

namespace millrace::tools {

/// There are labels 0 to kMaxShapeClasses - 1.
inline constexpr int kMaxShapeClasses = kNumShapeKinds * 8;

ShapeKind shape_kind(int label);
Rgb shape_colour(int label);
/// "red disc".
std::string shape_class_name(int label);
std::vector<std::string> shape_class_names(int classes);
/// Throws: InvalidArgument when there are not so many.
void check_shape_classes(int classes);

/// `colour` a little brighter or darker.
Rgb vary(const Rgb& colour, KeyedRng& rng);
/// A dull colour to draw on.
Rgb ground_colour(KeyedRng& rng);

}  // namespace millrace::tools
