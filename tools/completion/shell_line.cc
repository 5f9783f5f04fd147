#include "tools/completion/shell_line.h"

#include <algorithm>
#include <cctype>

namespace millrace::tools {
namespace {

constexpr std::string_view kSpaces = " \t\n";
constexpr std::string_view kOperators = ";|&";

bool is_setting(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

class Reader {
 public:
  explicit Reader(std::string_view breaks) : breaks_(breaks) { line_.words.emplace_back(); }

  void take(char c) {
    if (escaped_) {
      escaped_ = false;
      return add(c);
    }
    if (quote_ != 0) return in_quotes(c);
    if (c == '\\') {
      escaped_ = true;
    } else if (c == '\'' || c == '"') {
      quote_ = c;
      line_.edited_from = word().size();
    } else if (kSpaces.find(c) != std::string_view::npos) {
      if (!word().empty()) line_.words.emplace_back();
      line_.edited_from = 0;
    } else if (kOperators.find(c) != std::string_view::npos) {
      line_ = {.words = {""}};
    } else {
      add(c);
      if (breaks_.find(c) != std::string_view::npos) line_.edited_from = word().size();
    }
  }

  ShellLine end() {
    line_.in_quotes = quote_ != 0;
    auto& words = line_.words;
    while (words.size() > 1 && is_setting(words.front())) words.erase(words.begin());
    return std::move(line_);
  }

 private:
  std::string& word() { return line_.words.back(); }
  void add(char c) { word() += c; }
  void in_quotes(char c) {
    if (c == quote_)
      quote_ = 0;
    else if (c == '\\' && quote_ == '"')
      escaped_ = true;
    else
      add(c);
  }

  std::string_view breaks_;
  ShellLine line_;
  char quote_ = 0;
  bool escaped_ = false;
};

}  // namespace

ShellLine read_shell_line(std::string_view typed, std::string_view breaks) {
  Reader reader(breaks);
  for (const char c : typed) reader.take(c);
  return reader.end();
}

}  // namespace millrace::tools
