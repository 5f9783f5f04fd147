#include "tools/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>

#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "io/home_path.h"
#include "io/opener.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr double kLargest = 1e30;

std::string in_quotes(const std::string& value) { return "'" + printable(value) + "'"; }

/// All of `text` as a number.
template <typename Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(begin, end, value);
  if (code != std::errc{} || stop != end) return {};
  return value;
}

std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

/// Expands 1e6, as far as a double is exact.
std::string in_full(const std::string& written) {
  std::string text = without_underscores(written);
  if (text.find_first_of("eE.") == std::string::npos) return text;
  const auto value = parse_number<double>(text);
  const bool exact = value && std::abs(*value) < 9e15 && *value == std::floor(*value);
  return exact ? std::to_string(static_cast<std::int64_t>(*value)) : text;
}

bool is_digits(const std::string& text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return text.size() > sign && text.find_first_not_of("0123456789", sign) == std::string::npos;
}

/// What is wrong with a whole number; empty if nothing is.
std::string misplaced(const std::string& digits, std::int64_t least, std::uint64_t most) {
  const bool negative = digits.starts_with('-');
  const auto value = parse_number<std::uint64_t>(negative ? "0" : digits);
  const bool below = negative ? parse_number<std::int64_t>(digits).value_or(least - 1) < least
                              : value && least > 0 && *value < static_cast<std::uint64_t>(least);
  if (below) return fmt::format("must be at least {}", least);
  return value && *value <= most ? "" : fmt::format("must be at most {}", most);
}

/// A number for which `wrong` returns an empty text.
CLI::Validator number(const std::function<std::string(double)>& wrong) {
  return CLI::Validator(
      [wrong](std::string& text) -> std::string {
        const std::string plain = without_underscores(text);
        const auto value = parse_number<double>(plain);
        if (!value || !std::isfinite(*value)) return in_quotes(text) + " is not a number";
        if (const std::string what = wrong(*value); !what.empty())
          return in_quotes(text) + ": " + what;
        text = plain;
        return {};
      },
      "");
}

std::string known_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

CLI::Validator existing(bool folder) {
  const std::string kind = folder ? "folder" : "file";
  return CLI::Validator(
      [folder, kind](std::string& path) -> std::string {
        std::error_code ignored;
        const fs::file_status status = fs::status(path, ignored);
        if (!fs::exists(status))
          return fmt::format("{}: no such {}{}", in_quotes(io::printable_url(path)), kind,
                             io::is_network_url(path) ? " on this machine's disk" : "");
        if (fs::is_directory(status) == folder) return {};
        return fmt::format("{} is a {}", in_quotes(path), folder ? "file, not a folder" : "folder");
      },
      "");
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& names, const ValueAliases& aliases) {
  std::map<std::string, std::string> known;
  for (const auto& [alias, name] : aliases) known[plain_name(alias)] = name;
  for (const std::string& name : names) known[plain_name(name)] = name;
  return CLI::Validator(
      [known, names](std::string& value) -> std::string {
        const auto found = known.find(plain_name(value));
        if (found == known.end())
          return fmt::format("{} is not one of {}{}", in_quotes(value), known_names(names),
                             did_you_mean(value, names));
        value = found->second;
        return {};
      },
      "{" + fmt::format("{}", fmt::join(names, ",")) + "}");
}

CLI::Validator whole_number(std::int64_t least, std::uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const std::string digits = in_full(text);
        if (!is_digits(digits)) return in_quotes(text) + " is not a whole number";
        const std::string wrong = misplaced(digits, least, most);
        if (!wrong.empty()) return in_quotes(text) + ": " + wrong;
        text = digits;
        return {};
      },
      "");
}

std::string CountOf::text(std::string_view unit) const {
  return has_unit ? fmt::format("{}/{}", number, unit) : std::to_string(number);
}

CLI::Option* add_count_of(CLI::App& app, const std::string& name, CountOf& value,
                          std::string_view unit, std::int64_t least, std::uint64_t most,
                          const std::string& sentence) {
  const std::string end = "/" + std::string(unit);
  const auto number_in = [end](const std::string& text) {
    return text.substr(0, text.size() - (text.ends_with(end) ? end.size() : 0));
  };
  const CLI::Validator check(
      [=](std::string& text) {
        std::string number = number_in(text);
        std::string wrong = whole_number(least, most)(number);
        if (wrong.empty()) text = number + (text.ends_with(end) ? end : "");
        return wrong;
      },
      "");
  return add_read_option(
      app, name, check,
      [&value, number_in, end](const std::string& text) {
        value = {.number = parse_number<std::int64_t>(number_in(text)).value_or(0),
                 .has_unit = text.ends_with(end)};
      },
      [&value, unit] { return value.text(unit); }, sentence);
}

CLI::Option* add_read_option(CLI::App& app, const std::string& name, CLI::Validator check,
                             const std::function<void(const std::string&)>& read,
                             const std::function<std::string()>& show,
                             const std::string& sentence) {
  return app
      .add_option(
          name,
          [read](const CLI::results_t& words) {
            read(words.front());
            return true;
          },
          sentence, true, show)
      ->type_name("TEXT")
      ->transform(std::move(check));
}

CLI::Validator seed_number() { return whole_number(0, std::numeric_limits<std::uint64_t>::max()); }

CLI::Validator real_number(double least, double most) {
  return number([=](double value) -> std::string {
    if (value < least) return fmt::format("must be at least {}", least);
    return value > most ? fmt::format("must be at most {}", most) : "";
  });
}

CLI::Validator above_zero() {
  return number([](double value) -> std::string {
    if (value <= 0) return "must be above 0";
    return value > kLargest ? fmt::format("must be at most {}", kLargest) : "";
  });
}

CLI::Validator existing_file() { return existing(false); }

CLI::Validator existing_folder() { return existing(true); }

CLI::Validator output_path() {
  return CLI::Validator(
      [](std::string& path) -> std::string {
        try {
          path = io::with_home(path);
          return {};
        } catch (const Error& error) {
          return error.message();
        }
      },
      "");
}

}  // namespace millrace::tools
