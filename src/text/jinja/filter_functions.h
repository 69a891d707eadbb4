/* The filters as functions, for their table in filters.c. What each takes and does is told by Jinja2's documentation of
 * the filter of its name; given[i] follows the order of its parameters there. */
#ifndef QN_TEXT_JINJA_FILTER_FUNCTIONS_H
#define QN_TEXT_JINJA_FILTER_FUNCTIONS_H

#include "text/jinja/arguments.h"

/* filters_text.c */
qn_native qn_filter_capitalize;
qn_native qn_filter_center;
qn_native qn_filter_escape;
qn_native qn_filter_filesizeformat;
qn_native qn_filter_forceescape;
qn_native qn_filter_indent;
qn_native qn_filter_lower;
qn_native qn_filter_replace;
qn_native qn_filter_safe;
qn_native qn_filter_string;
qn_native qn_filter_title;
qn_native qn_filter_trim;
qn_native qn_filter_truncate;
qn_native qn_filter_upper;
qn_native qn_filter_urlencode;
qn_native qn_filter_wordcount;
qn_native qn_filter_xmlattr;
qn_native_raw qn_filter_format;

/* filters_list.c */
qn_native qn_filter_batch;
qn_native qn_filter_dictsort;
qn_native qn_filter_first;
qn_native qn_filter_groupby;
qn_native qn_filter_items;
qn_native qn_filter_join;
qn_native qn_filter_last;
qn_native qn_filter_list;
qn_native qn_filter_max;
qn_native qn_filter_min;
qn_native qn_filter_reverse;
qn_native qn_filter_slice;
qn_native qn_filter_sort;
qn_native qn_filter_sum;
qn_native qn_filter_unique;

/* filters_select.c */
qn_native_raw qn_filter_map;
qn_native_raw qn_filter_reject;
qn_native_raw qn_filter_rejectattr;
qn_native_raw qn_filter_select;
qn_native_raw qn_filter_selectattr;

#endif
