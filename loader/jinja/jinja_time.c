/* Dates as text: the conversions of strftime, without a locale or a zone. */
#include "loader/jinja/jinja_time.h"

#include <string.h>

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

/* A date with what follows from it. */
struct date {
    int year, month, day; /* month from 1 */
    int hour, minute, second;
    int week_day, year_day; /* from 0 = Sunday and from 0 = 1 January */
};

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_before(int year, int month)
{
    static const int days[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    return days[month - 1] + (month > 2 && is_leap(year));
}

/* Fields out of range are brought into it, so that no caller can make us read beyond the names. */
static int within(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static struct date date_of(const struct tm *now)
{
    struct date d = {.year = within(now->tm_year, -1899, 8099) + 1900,
                     .month = within(now->tm_mon, 0, 11) + 1,
                     .day = within(now->tm_mday, 1, 31),
                     .hour = within(now->tm_hour, 0, 23),
                     .minute = within(now->tm_min, 0, 59),
                     .second = within(now->tm_sec, 0, 60)};
    d.year_day = days_before(d.year, d.month) + d.day - 1;
    int past = d.year - 1; /* 1 January of the year 1 was a Monday */
    d.week_day = (1 + past * 365 + past / 4 - past / 100 + past / 400 + d.year_day) % 7;
    return d;
}

/* The year and week that ISO 8601 counts the date to. */
static int iso_week(const struct date *d, int *year)
{
    int monday_based = (d->week_day + 6) % 7;
    int thursday = d->year_day - monday_based + 3; /* decides the year */
    int days = is_leap(d->year) ? 366 : 365;
    *year = d->year;
    if (thursday < 0) {
        *year = d->year - 1;
        thursday += is_leap(*year) ? 366 : 365;
    } else if (thursday >= days) {
        *year = d->year + 1;
        thursday -= days;
    }
    return thursday / 7 + 1;
}

static void put_number(struct dgl_buf *out, int value, int width, char pad)
{
    if (pad == '-')
        dgl_buf_printf(out, "%d", value);
    else
        dgl_buf_printf(out, pad == '0' ? "%0*d" : "%*d", width, value);
}

/* Numbers of fixed width; false: the letter is none of them. `pad` is '-' for no padding, else 0.
 */
static bool put_numeric(struct dgl_buf *out, char letter, const struct date *d, char pad)
{
    int week_year, week = iso_week(d, &week_year);
    const struct {
        char letter;
        int value, width;
        char pad;
    } fields[] = {
        {'d', d->day, 2, '0'},
        {'e', d->day, 2, ' '},
        {'m', d->month, 2, '0'},
        {'y', d->year % 100, 2, '0'},
        {'Y', d->year, 1, '0'},
        {'C', d->year / 100, 2, '0'},
        {'H', d->hour, 2, '0'},
        {'k', d->hour, 2, ' '},
        {'I', (d->hour + 11) % 12 + 1, 2, '0'},
        {'l', (d->hour + 11) % 12 + 1, 2, ' '},
        {'M', d->minute, 2, '0'},
        {'S', d->second, 2, '0'},
        {'f', 0, 6, '0'},
        {'j', d->year_day + 1, 3, '0'},
        {'w', d->week_day, 1, '0'},
        {'u', (d->week_day + 6) % 7 + 1, 1, '0'},
        {'U', (d->year_day + 7 - d->week_day) / 7, 2, '0'},
        {'W', (d->year_day + 7 - (d->week_day + 6) % 7) / 7, 2, '0'},
        {'V', week, 2, '0'},
        {'G', week_year, 1, '0'},
        {'g', week_year % 100, 2, '0'},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].letter == letter) {
            put_number(out, fields[i].value, fields[i].width, pad ? pad : fields[i].pad);
            return true;
        }
    }
    return false;
}

static bool put_name(struct dgl_buf *out, char letter, const struct date *d)
{
    switch (letter) {
    case 'a':
        dgl_buf_append(out, day_names[d->week_day], 3);
        return true;
    case 'A':
        dgl_buf_puts(out, day_names[d->week_day]);
        return true;
    case 'b':
    case 'h':
        dgl_buf_append(out, month_names[d->month - 1], 3);
        return true;
    case 'B':
        dgl_buf_puts(out, month_names[d->month - 1]);
        return true;
    case 'p':
    case 'P':
        dgl_buf_puts(out,
                     letter == 'p' ? (d->hour < 12 ? "AM" : "PM") : (d->hour < 12 ? "am" : "pm"));
        return true;
    case 'z': /* there is no zone */
    case 'Z':
        return true;
    case 'n':
    case 't':
    case '%':
        dgl_buf_putc(out, letter == 'n' ? '\n' : letter == 't' ? '\t' : '%');
        return true;
    default:
        return false;
    }
}

/* What a conversion that is made of others stands for. */
static const char *composite(char letter)
{
    switch (letter) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'x':
    case 'D':
        return "%m/%d/%y";
    case 'X':
    case 'T':
        return "%H:%M:%S";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    default:
        return NULL;
    }
}

/* One conversion that is not made of others. */
static bool put_single(struct dgl_buf *out, char letter, const struct date *d, char pad)
{
    return put_numeric(out, letter, d, pad) || put_name(out, letter, d);
}

static void put_composite(struct dgl_buf *out, const char *format, const struct date *d)
{
    for (; *format; format++) {
        if (*format != '%')
            dgl_buf_putc(out, *format);
        else
            put_single(out, *++format, d, '\0');
    }
}

bool jinja_strftime(struct dgl_buf *out, struct dgl_str format, const struct tm *now, char *unknown)
{
    struct date d = date_of(now);
    for (size_t i = 0; i < format.len; i++) {
        if (format.p[i] != '%' || i + 1 == format.len) {
            dgl_buf_putc(out, format.p[i]);
            continue;
        }
        char pad = format.p[++i] == '-' && i + 1 < format.len ? '-' : '\0';
        char letter = pad ? format.p[++i] : format.p[i];
        const char *parts = composite(letter);
        if (parts) {
            put_composite(out, parts, &d);
        } else if (!put_single(out, letter, &d, pad)) {
            *unknown = letter;
            return false;
        }
    }
    return true;
}
