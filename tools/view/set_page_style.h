// What the page of a data set adds to the report's style sheet: pictures.
#pragma once

namespace millrace::tools {

inline constexpr const char* kSetPageStyle = R"css(
.shots{display:grid;grid-template-columns:repeat(auto-fill,minmax(112px,1fr));gap:16px 12px;margin:0 0 14px}
.group{border-left:3px solid var(--line);padding-left:12px}
.shot{font-size:.78rem;line-height:1.35;min-width:0}
.shot img,.shot .none{display:block;width:100%;height:auto;aspect-ratio:1;object-fit:contain;background:var(--grid);
border-radius:8px}
.shot img.small{image-rendering:pixelated}
.shot .none{padding:10px;color:var(--soft)}
.shot figcaption{font-weight:400;margin:5px 0 0;overflow-wrap:anywhere}
.shot b{font-weight:600}.shot span{color:var(--soft);display:block}
.more{font-size:.84rem;overflow-wrap:anywhere}
@media (max-width:480px){.shots{grid-template-columns:repeat(auto-fill,minmax(92px,1fr))}}
@media print{.shots{grid-template-columns:repeat(auto-fill,minmax(72pt,1fr))}}
)css";

}  // namespace millrace::tools
