// The page's style sheet: light and dark by the reader's setting, one column on a telephone, paper
// when printed. Colour-blind readers tell the colours c0 to c7 apart, too: any two are at least
// 0.13 apart in OKLab, also as in protanopia and deuteranopia (Machado et al. 2009), with a
// contrast of 3:1 against the card.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace millrace::tools {

std::string report_style();

}  // namespace millrace::tools
