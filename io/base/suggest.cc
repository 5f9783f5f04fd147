#include "io/base/suggest.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace millrace {
namespace {

constexpr std::size_t kLongestName = 64;

/// Damerau-Levenshtein distance: letters to add, drop, change or swap with a neighbour to turn `a`
/// into `b`.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) steps[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) steps[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = steps[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      steps[i][j] = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
    }
  return steps[a.size()][b.size()];
}

/// The distance of two names, and their distance in letters. One that begins as the other, by three
/// or more letters, counts as a distance of one; not a word of twice the letters of the name.
std::pair<std::size_t, std::size_t> apart(const std::string& word, const std::string& name) {
  const std::size_t slips = distance(word, name);
  const bool begins = std::min(word.size(), name.size()) >= 3 && word.size() < 2 * name.size() &&
                      (word.starts_with(name) || name.starts_with(word));
  return {begins ? std::min<std::size_t>(slips, 1) : slips, slips};
}

}  // namespace

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char letter : name)
    if (letter != '-' && letter != '_' && letter != ' ')
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return plain;
}

std::string nearest(std::string_view word, std::span<const std::string> names) {
  if (word.size() > kLongestName) return {};
  const std::string plain = plain_name(word);
  std::pair<std::size_t, std::size_t> best(std::max<std::size_t>(1, plain.size() / 3) + 1, 0);
  std::string found;
  for (const std::string& name : names) {
    const auto slips = apart(plain, plain_name(name));
    if (slips >= best || slips.first >= plain.size()) continue;
    best = slips;
    found = name;
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

}  // namespace millrace
