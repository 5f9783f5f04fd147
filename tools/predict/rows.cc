#include "tools/predict/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Likely {
  std::size_t number = 0;
  double probability = 0;
};

// RFC 4180: quoted if it contains a comma, a quote or a line end.
std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

void check_finite(const trainer::Prediction& one, std::span<const float> values) {
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return;
  throw Error(ErrorCode::kNotFinite, "the model's output is not finite",
              {.key = std::string(one.key), .stage = "predict"});
}

double sum_of_exponentials(std::span<const float> logits, float highest) {
  return std::accumulate(logits.begin(), logits.end(), 0.0, [&](double sum, float logit) {
    return sum + std::exp(static_cast<double>(logit) - highest);
  });
}

/// The most likely first; of equals, the lower number.
std::vector<Likely> likeliest(std::span<const float> logits, std::size_t count) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  const float highest = logits[order.front()];
  const double sum = sum_of_exponentials(logits, highest);
  std::vector<Likely> classes;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = std::exp(static_cast<double>(logits[order[i]]) - highest) / sum;
    classes.push_back({order[i], share});
  }
  return classes;
}

std::string class_name(const RowOptions& options, std::size_t number) {
  return number < options.names.size() ? options.names[number] : std::string();
}

Json likely_json(const Likely& one, const RowOptions& options) {
  Json json = {{"class", one.number}};
  if (!options.names.empty()) json["name"] = class_name(options, one.number);
  json["probability"] = one.probability;
  return json;
}

std::vector<double> probabilities(std::span<const float> logits) {
  std::vector<double> values;
  for (const float logit : logits) values.push_back(1.0 / (1.0 + std::exp(-double{logit})));
  return values;
}

}  // namespace

std::string class_header(const RowOptions& options, std::size_t outputs) {
  if (options.json) return {};
  std::string line = "key";
  for (std::size_t i = 1; i <= std::min(options.top, outputs); ++i) {
    const std::string rank = i == 1 ? "" : std::to_string(i);
    line += fmt::format(",class{0}{1},probability{0}", rank,
                        options.names.empty() ? "" : ",name" + rank);
  }
  return line;
}

std::string class_row(const trainer::Prediction& one, const RowOptions& options) {
  const std::span<const float> logits = one.outputs.front();
  check_finite(one, logits);
  const std::vector<Likely> classes = likeliest(logits, options.top);
  if (options.json) {
    Json json = {{"key", one.key}};
    json.update(likely_json(classes.front(), options));
    if (options.top > 1) {
      for (const Likely& each : classes) json["top"].push_back(likely_json(each, options));
    }
    return json.dump();
  }
  std::string line = csv_field(one.key);
  for (const Likely& each : classes) {
    line += fmt::format(",{}", each.number);
    if (!options.names.empty()) line += "," + csv_field(class_name(options, each.number));
    line += fmt::format(",{:.6f}", each.probability);
  }
  return line;
}

std::string label_header(const RowOptions& options, std::size_t outputs) {
  if (options.json) return {};
  std::string line = "key";
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::string name = class_name(options, i);
    line += "," + (name.empty() ? "label" + std::to_string(i) : csv_field(name));
  }
  return line;
}

std::string label_row(const trainer::Prediction& one, const RowOptions& options) {
  check_finite(one, one.outputs.front());
  const std::vector<double> values = probabilities(one.outputs.front());
  if (options.json) return Json({{"key", one.key}, {"probabilities", values}}).dump();
  std::string line = csv_field(one.key);
  for (const double value : values) line += fmt::format(",{:.6f}", value);
  return line;
}

std::string feature_header(const RowOptions& options, std::size_t outputs) {
  if (options.json) return {};
  std::string line = "key";
  for (std::size_t i = 0; i < outputs; ++i) line += ",feature" + std::to_string(i);
  return line;
}

std::string feature_row(const trainer::Prediction& one, const RowOptions& options) {
  check_finite(one, one.outputs.front());
  const std::vector<float> values(one.outputs.front().begin(), one.outputs.front().end());
  if (options.json) return Json({{"key", one.key}, {"features", values}}).dump();
  std::string line = csv_field(one.key);
  for (const float value : values) line += fmt::format(",{:.6g}", value);
  return line;
}

}  // namespace millrace::tools
