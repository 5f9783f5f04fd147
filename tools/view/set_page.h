// The page of a data set: a single HTML document without anything to fetch, in the style of
// `report` (tools/report/).
//
// Threads: pure functions, except that read_page_thumbnails() reads.
#pragma once

#include <string>
#include <vector>

#include "tools/view/findings.h"
#include "tools/view/set_survey.h"
#include "tools/view/thumbnails.h"

namespace millrace::tools {

/// What the page of a set says.
struct SetPage {
  std::vector<std::string> specs;  ///< of the set and, if there is one, the set it is compared with
  std::vector<std::string> class_names = {};
  std::vector<SetSurvey> surveys = {};  ///< as many as specs
  PictureList grid = {};
  std::vector<PictureList> copies = {};         ///< within the set
  std::vector<PictureList> contradicting = {};  ///< of the copies, those of several classes
  std::vector<PictureList> alike = {};
  std::vector<PictureList> leaked_copies = {};  ///< in both sets
  std::vector<PictureList> leaked_alike = {};
  std::vector<Outliers> outliers = {};  ///< of the set
  Thumbnails thumbnails = {};

  bool has_two_sets() const { return surveys.size() > 1; }
};

/// Fills in what follows from the surveys: `count` pictures for the grid, evenly through the set,
/// and the findings. Lifetime: they refer to the surveys.
void find_what_to_show(SetPage& page, std::size_t count);
/// Wants and reads the thumbnails of what is shown. Throws: Cancelled.
void read_page_thumbnails(SetPage& page, const ThumbnailInput& input);

std::string set_page(const SetPage& page);

/// The pictures of all groups but the first of each: what to leave out.
std::size_t surplus(const std::vector<PictureList>& groups);

}  // namespace millrace::tools
