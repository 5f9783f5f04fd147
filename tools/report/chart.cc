#include "tools/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/report/html.h"

namespace millrace::tools {
namespace {

using html::escaped;
using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 520;
constexpr double kHeight = 250;
constexpr double kLeft = 68;
constexpr double kRight = 14;
constexpr double kTop = 10;
constexpr double kBottom = 32;
constexpr int kChartColours = 8;

/// The classes of a colour.
std::string colour_class(int colour) {
  return fmt::format("c{}{}", colour % kChartColours, colour < kChartColours ? "" : " hollow");
}

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  double size() const { return most - least; }
};

/// 1, 2 or 5 times a power of ten.
double nice_step(double range, int steps) {
  const double rough = range / steps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

struct Axis {
  double from = 0;
  double to = 1;
  double step = 1;

  /// `is_tight`: it ends where the values do.
  Axis(Range range, int steps, bool is_tight) {
    if (range.size() <= std::abs(range.most) * 1e-9) {
      const double around = range.most == 0 ? 1 : 0.1 * std::abs(range.most);
      range.add(range.least - around);
      range.add(range.most + around);
    }
    step = nice_step(range.size(), steps);
    from = std::floor(range.least / step) * step;
    to = is_tight ? range.most : std::ceil(range.most / step) * step;
  }
  /// 0 to 1.
  double place(double value) const { return (value - from) / (to - from); }
};

/// The least and greatest of each column of pixels.
Points thinned(const Points& points, const Axis& x) {
  constexpr std::size_t kColumns = 450;
  if (points.size() <= 2 * kColumns) return points;
  Points kept;
  for (std::size_t at = 0; at < points.size();) {
    const auto column = static_cast<std::size_t>(x.place(points[at].first) * kColumns);
    std::size_t end = at;
    while (end < points.size() &&
           static_cast<std::size_t>(x.place(points[end].first) * kColumns) == column)
      ++end;
    auto [least, most] =
        std::minmax_element(points.begin() + static_cast<std::ptrdiff_t>(at),
                            points.begin() + static_cast<std::ptrdiff_t>(end),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most < least) std::swap(least, most);
    kept.push_back(*least);
    if (most != least) kept.push_back(*most);
    at = end;
  }
  return kept;
}

class CurvesSvg {
 public:
  explicit CurvesSvg(const Chart& chart)
      : chart_(chart), x_(range_of(chart, true), 5, true), y_(range_of(chart, false), 4, false) {}

  std::string text() const {
    std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
                                  kWidth, kHeight, escaped(description()));
    for (double y = y_.from; y <= y_.to + y_.step / 2; y += y_.step) svg += row(y);
    for (double x = x_.from; x <= x_.to + x_.step / 1e6; x += x_.step) svg += column(x);
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\">step</text>", 6, kHeight - 12);
    for (const Curve& curve : chart_.curves) svg += line(curve);
    return svg + "</svg>";
  }

 private:
  static Range range_of(const Chart& chart, bool is_x) {
    Range range;
    for (const Curve& curve : chart.curves)
      for (const auto& [x, y] : curve.points) range.add(is_x ? x : y);
    if (is_x || chart.from_zero) range.add(0);
    return range;
  }

  double across(double x) const { return kLeft + x_.place(x) * (kWidth - kLeft - kRight); }
  double down(double y) const { return kTop + (1 - y_.place(y)) * (kHeight - kTop - kBottom); }

  std::string row(double y) const {
    const double shown = std::abs(y) < y_.step / 1e6 ? 0 : y;
    return fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
        kLeft, kWidth - kRight, down(y), kLeft - 7, down(y) + 4, escaped(tick(shown)));
  }
  /// The ticks of an axis have as many decimals each.
  std::string tick(double y) const {
    const bool is_percent = chart_.text == html::percent;
    const double scale = is_percent ? 100 : 1;
    const double largest = scale * std::max(std::abs(y_.from), std::abs(y_.to));
    const double step = scale * y_.step;
    const bool is_plain = is_percent || chart_.text == html::number;
    if (!is_plain || largest >= 1e4 || step < 1e-4) return chart_.text(y);
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    return fmt::format("{:.{}f}{}", scale * y, decimals, is_percent ? " %" : "");
  }
  std::string column(double x) const {
    return fmt::format(
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", across(x),
        kHeight - 12, html::number(x));
  }

  std::string line(const Curve& curve) const {
    std::string path;
    for (const auto& [x, y] : thinned(curve.points, x_))
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : "L", across(x), down(y));
    std::string svg =
        fmt::format("<path class=\"curve c{}{}{}\" d=\"{}\"/>", curve.colour % kChartColours,
                    curve.is_faint ? " faint" : "", curve.is_dashed ? " dashed" : "", path);
    constexpr std::size_t kMostDots = 60;
    if (curve.has_dots && curve.points.size() <= kMostDots)
      for (const auto& [x, y] : curve.points)
        svg += fmt::format(
            "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}, step {}: "
            "{}</title></circle>",
            colour_class(curve.colour), across(x), down(y), escaped(curve.name), html::number(x),
            escaped(chart_.text(y)));
    return svg;
  }

  std::string description() const {
    std::string text = chart_.title + " over steps.";
    for (const Curve& curve : chart_.curves)
      text += fmt::format(" {}: {} at first, {} at last.", curve.name,
                          chart_.text(curve.points.front().second),
                          chart_.text(curve.points.back().second));
    return text;
  }

  const Chart& chart_;
  Axis x_;
  Axis y_;
};

std::string key(const std::string& name, int colour, const std::string& value = "") {
  return fmt::format("<li>{}{}{}</li>", swatch(colour), escaped(name),
                     value.empty() ? "" : " <b>" + escaped(value) + "</b>");
}

double sum_of(const Bar& bar) {
  double sum = 0;
  for (const BarPart& part : bar.parts) sum += part.value;
  return sum;
}

}  // namespace

std::string curves_figure(const Chart& chart) {
  Chart shown = chart;
  std::erase_if(shown.curves, [](const Curve& curve) { return curve.points.empty(); });
  if (shown.curves.empty()) return {};
  std::string keys;
  for (const Curve& curve : shown.curves)
    if (curve.has_key)
      keys += key(curve.name, curve.colour, shown.text(curve.points.back().second));
  return fmt::format(
      "<figure><figcaption>{}</figcaption>\n{}\n<ul class=\"keys\">{}</ul></figure>\n",
      escaped(shown.title), CurvesSvg(shown).text(), keys);
}

std::string bars(const std::vector<Bar>& rows, std::string (*text)(double), bool is_share) {
  double longest = 0;
  for (const Bar& bar : rows) longest = std::max(longest, sum_of(bar));
  std::string all = "<dl class=\"bars\">";
  for (const Bar& bar : rows) {
    const double whole = is_share ? sum_of(bar) : longest;
    all += fmt::format("<div><dt>{}</dt><dd class=\"bar\">", escaped(bar.label));
    for (const BarPart& part : bar.parts) {
      if (whole <= 0 || part.value <= 0 || part.colour < 0) continue;
      const double share = part.value / whole;
      all += fmt::format(
          "<span class=\"part c{}\" style=\"width:{:.2f}%\" title=\"{}: {}\"></span>",
          part.colour % kChartColours, 100 * share, escaped(part.name), escaped(text(part.value)));
    }
    all += fmt::format("</dd><dd class=\"end\">{}</dd></div>\n", escaped(bar.end));
  }
  return all + "</dl>\n";
}

std::string swatch(int colour) {
  return fmt::format("<span class=\"swatch {}\"></span>", colour_class(colour));
}

std::string legend(const std::vector<std::pair<std::string, int>>& names) {
  std::string keys = "<ul class=\"keys\">";
  for (const auto& [name, colour] : names) keys += key(name, colour);
  return keys + "</ul>\n";
}

}  // namespace millrace::tools
