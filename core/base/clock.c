/* Monotonic time and date parsing. */
#include "core/base/clock.h"

uint64_t dgl_clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    if (clock_gettime(clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t dgl_now_ns(void)
{
    return dgl_clock_ns(CLOCK_MONOTONIC); /* cannot fail for this clock */
}

/* Returns true if `text` matches `layout`, where '0' stands for any digit. */
static bool has_layout(struct dgl_str text, const char *layout)
{
    for (size_t i = 0; i < text.len; i++) {
        bool digit = text.p[i] >= '0' && text.p[i] <= '9';
        if (layout[i] == '0' ? !digit : text.p[i] != layout[i])
            return false;
    }
    return true;
}

/* Returns the number of `len` digits at `at`, or 0 if the text is shorter. */
static int number_at(struct dgl_str text, size_t at, size_t len)
{
    int number = 0;
    for (size_t i = at; i < at + len && at < text.len; i++)
        number = number * 10 + (text.p[i] - '0');
    return number;
}

bool dgl_parse_date(struct dgl_str text, struct tm *out)
{
    enum { day_len = 10, minute_len = 16, second_len = 19 };
    if (text.len != day_len && text.len != minute_len && text.len != second_len)
        return false;
    if (!has_layout(text, "0000-00-00T00:00:00") && !has_layout(text, "0000-00-00 00:00:00"))
        return false;
    const struct tm given = {.tm_year = number_at(text, 0, 4) - 1900,
                             .tm_mon = number_at(text, 5, 2) - 1,
                             .tm_mday = number_at(text, 8, 2),
                             .tm_hour = number_at(text, 11, 2),
                             .tm_min = number_at(text, 14, 2),
                             .tm_sec = number_at(text, 17, 2)};
    struct tm real = given;
    timegm(&real); /* computes the weekday, and normalizes dates such as February 30 */
    if (given.tm_year < 1000 - 1900 || real.tm_year != given.tm_year ||
        real.tm_mon != given.tm_mon || real.tm_mday != given.tm_mday ||
        real.tm_hour != given.tm_hour || real.tm_min != given.tm_min || real.tm_sec != given.tm_sec)
        return false;
    real.tm_isdst = -1; /* unknown */
    *out = real;
    return true;
}
