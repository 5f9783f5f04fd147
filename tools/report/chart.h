// Charts as inline SVG: curves over a run's steps, and bars of parts. Colours are the page's
// (classes c0 to c7), so that a chart is light or dark as the page is.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace millrace::tools {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x ascending
  int colour = 0;              ///< modulo 8; from 8 on, dots and swatches are hollow
  bool is_faint = false;       ///< thin: of each step, beside one of epochs
  bool is_dashed = false;      ///< of training, beside one of validation
  bool has_key = true;         ///< the figure's keys name it
  bool has_dots = false;       ///< each point has a dot, which says its value
  std::size_t not_finite = 0;  ///< points that cannot be drawn: NaN, infinity
};

struct Chart {
  std::string title;
  std::string (*text)(double) = nullptr;  ///< of values
  std::vector<Curve> curves;              ///< those without a point are left out
  bool from_zero = false;
  /// Values far from where the curves begin, as of a run that diverged, do not stretch the axis:
  /// they are beyond it, which marks at its end and a line below say.
  bool may_diverge = false;
};

/// A <figure>; empty if no curve has a point. Of a curve of many points, the least and greatest of
/// each pixel are drawn.
std::string curves_figure(const Chart& chart);

/// A row of a bar chart: parts of a whole, with their colours.
struct BarPart {
  std::string name;
  double value = 0;
  int colour = 0;  ///< below 0: none, the part is left empty
};
struct Bar {
  std::string label;
  std::vector<BarPart> parts;
  std::string end;  ///< text behind the bar
};

/// Rows of bars, each as long as its sum is of the longest one's; or, with `is_share`, all alike.
std::string bars(const std::vector<Bar>& rows, std::string (*text)(double), bool is_share);
/// The colours of the parts that any row has, in words.
std::string legend(const std::vector<std::pair<std::string, int>>& names);
/// A square of that colour, before a name.
std::string swatch(int colour);

}  // namespace millrace::tools
