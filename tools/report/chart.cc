#include "tools/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/base/text.h"
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

double magnitude(const std::pair<double, double>& point) { return std::abs(point.second); }

double largest_point(const Points& points) {
  return magnitude(*std::ranges::max_element(points, {}, magnitude));
}

/// Where the curves begin: the smallest size of a first value.
double common_begin(const std::vector<Curve>& curves) {
  double least = std::numeric_limits<double>::infinity();
  for (const Curve& curve : curves)
    if (const double begin = magnitude(curve.points.front()); begin > 0)
      least = std::min(least, begin);
  return least;
}

bool has_diverged(const Curve& curve, double begin) {
  const double own = magnitude(curve.points.front());
  const double most = largest_point(curve.points);
  return most > 1000 * begin || (own > 0 && most > 100 * own);
}

/// The size that an axis goes up to: of curves that have diverged a little beyond the others, or
/// beyond where they began.
double largest_shown(const std::vector<Curve>& curves) {
  const double begin = common_begin(curves);
  double usual = 0;
  bool any_has = false;
  for (const Curve& curve : curves) {
    const bool has = has_diverged(curve, begin);
    any_has = any_has || has;
    if (!has) usual = std::max(usual, largest_point(curve.points));
  }
  if (!any_has) return std::numeric_limits<double>::infinity();
  return 3 * (usual > 0 ? usual : begin);
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

/// What is not seen of a curve.
std::string remark(const Curve& curve, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<li>{}{}</li>", swatch(curve.colour), escaped(curve.name + ": " + text));
}

std::string not_finite_text(const Curve& curve) {
  if (curve.not_finite == 0) return {};
  return counted(curve.not_finite, "point") + (curve.not_finite == 1 ? " is" : " are") +
         " not finite";
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
    for (const Curve& curve : chart_.curves) svg += line(curve) + marks(curve);
    return svg + "</svg>";
  }

  /// What of the curves the axis leaves out, in words.
  std::string beyond() const {
    std::string text;
    for (const Curve& curve : chart_.curves) text += remark(curve, beyond_text(curve));
    return text;
  }

 private:
  std::string beyond_text(const Curve& curve) const {
    const auto beyond = std::ranges::count_if(
        curve.points, [&](const auto& point) { return is_beyond(point.second); });
    if (beyond == 0) return {};
    return fmt::format("▲ {} of {} points are beyond the axis, up to {}", beyond,
                       curve.points.size(), chart_.text(largest_point(curve.points)));
  }

  static Range range_of(const Chart& chart, bool is_x) {
    const double most = !is_x && chart.may_diverge ? largest_shown(chart.curves)
                                                   : std::numeric_limits<double>::infinity();
    Range range;
    for (const Curve& curve : chart.curves)
      for (const auto& [x, y] : curve.points)
        if (std::abs(y) <= most) range.add(is_x ? x : y);
    if (is_x || chart.from_zero) range.add(0);
    return range;
  }

  double across(double x) const { return kLeft + x_.place(x) * (kWidth - kLeft - kRight); }
  /// What is beyond the axis leaves the picture at its top, or stays at its bottom.
  double down(double y) const {
    return kTop + (1 - std::clamp(y_.place(y), 0.0, 50.0)) * (kHeight - kTop - kBottom);
  }
  bool is_beyond(double y) const {
    constexpr double kRounding = 1e-9;
    return y_.place(y) < -kRounding || y_.place(y) > 1 + kRounding;
  }

  /// Where a curve leaves the axis: a triangle that points there.
  std::string marks(const Curve& curve) const {
    constexpr int kMost = 60;
    std::string all;
    bool was_beyond = false;
    int count = 0;
    for (const auto& [x, y] : thinned(curve.points, x_)) {
      const bool is_now = is_beyond(y);
      if (is_now && !was_beyond && count++ < kMost) all += mark(x, y_.place(y) > 1, curve.colour);
      was_beyond = is_now;
    }
    return all;
  }
  std::string mark(double x, bool is_above, int colour) const {
    const double tip = is_above ? kTop - 7 : kHeight - kBottom + 7;
    const double base = tip + (is_above ? 9 : -9);
    return fmt::format("<path class=\"dot {0}\" d=\"M{1:.1f},{2:.1f}L{3:.1f},{4:.1f}H{5:.1f}Z\"/>",
                       colour_class(colour), across(x), tip, across(x) - 6, base, across(x) + 6);
  }

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
        if (!is_beyond(y))
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

std::string key_list(const std::string& items) { return "<ul class=\"keys\">" + items + "</ul>"; }

std::string chart_figure(const std::string& title, const std::string& content) {
  return fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escaped(title), content);
}

double sum_of(const Bar& bar) {
  double sum = 0;
  for (const BarPart& part : bar.parts) sum += part.value;
  return sum;
}

}  // namespace

std::string curves_figure(const Chart& chart) {
  std::string unseen;
  for (const Curve& curve : chart.curves) unseen += remark(curve, not_finite_text(curve));
  Chart shown = chart;
  std::erase_if(shown.curves, [](const Curve& curve) { return curve.points.empty(); });
  if (shown.curves.empty())
    return unseen.empty() ? unseen : chart_figure(chart.title, key_list(unseen));
  std::string keys;
  for (const Curve& curve : shown.curves)
    if (curve.has_key)
      keys += key(curve.name, curve.colour, shown.text(curve.points.back().second));
  const CurvesSvg svg(shown);
  unseen = svg.beyond() + unseen;
  return chart_figure(chart.title, svg.text() + "\n" + key_list(keys) +
                                       (unseen.empty() ? unseen : key_list(unseen)));
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
