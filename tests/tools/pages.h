// Pages that the program draws: parsed strictly, and laid out by a browser where there is one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/support.h"

namespace millrace::testing {

inline constexpr const char* kBrowser = "/usr/bin/chromium";

/// What tests/tools/report_page.py finds in the page; fails where it finds a fault.
inline nlohmann::json parse_page(const std::string& page, const std::string& metrics = "") {
  std::vector<std::string> words = {"/usr/bin/python3", "tests/tools/report_page.py", page};
  if (!metrics.empty()) words.push_back(metrics);
  const ProcessResult result = run_process(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

inline std::string text_of(const nlohmann::json& page) { return page.value("text", ""); }

/// A browser lays the page out no wider than a narrow and a wide window. Requires: kBrowser.
inline void expect_fits_windows(const TempDir& dir, std::string page) {
  page.insert(page.find("</body>"),
              "<script>document.title=document.documentElement.scrollWidth+' of '+innerWidth"
              "</script>");
  write_file(dir / "measured.html", page);
  for (const std::string width : {"500", "1600"}) {
    const ProcessResult result = run_process(
        {kBrowser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--user-data-dir=" + (dir / "profile"), "--window-size=" + width + ",2000", "--dump-dom",
         "file://" + (dir / "measured.html")});
    EXPECT_THAT(result.out, ::testing::HasSubstr("<title>" + width + " of " + width + "</title>"));
  }
}

/// How many tables of the page's part `part`, as "#compare", are wider than a window of that width
/// shows, so that they scroll. Requires: kBrowser.
inline int scrolling_parts(const TempDir& dir, std::string page, const std::string& part,
                           int width) {
  page.insert(page.find("</body>"),
              "<script>document.title='scrolls: '+[...document.querySelectorAll('" + part +
                  " .scroll')].filter(e=>e.scrollWidth>e.clientWidth).length</script>");
  write_file(dir / "measured.html", page);
  const std::string text = run_process({kBrowser, "--headless=new", "--no-sandbox", "--disable-gpu",
                                        "--hide-scrollbars", "--user-data-dir=" + (dir / "profile"),
                                        "--window-size=" + std::to_string(width) + ",2000",
                                        "--dump-dom", "file://" + (dir / "measured.html")})
                               .out;
  const std::size_t at = text.find("<title>scrolls: ");
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + 16);
}

}  // namespace millrace::testing
