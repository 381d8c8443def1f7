/* Who sent a request: its address, behind trusted proxies too, and the id of the request. */
#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "core/base/clock.h"
#include "tools/serve/serve_http.h"

/* ---- addresses ------------------------------------------------------------------------------- */

/* An address of IPv6, or of IPv4 as ::ffff:a.b.c.d, and a number of leading bits. */
struct net {
    unsigned char bytes[16];
    unsigned bits;
};

/* Reads ADDRESS, and ADDRESS/BITS if `nets` is true. */
static bool parse_net(struct dgl_str text, bool nets, struct net *out)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    char name[INET6_ADDRSTRLEN];
    struct dgl_str bits = text;
    struct dgl_str address;
    dgl_str_split(&bits, '/', &address);
    uint64_t number = 0;
    if (address.len >= sizeof(name) || address.len == 0)
        return false;
    memcpy(name, address.p, address.len);
    name[address.len] = '\0';
    const bool v4 = inet_pton(AF_INET, name, out->bytes + 12) == 1;
    if (v4)
        memcpy(out->bytes, mapped, sizeof(mapped));
    else if (inet_pton(AF_INET6, name, out->bytes) != 1)
        return false;
    out->bits = 128;
    if (address.len == text.len)
        return true;
    const unsigned most = v4 ? 32 : 128;
    if (!nets || !dgl_parse_u64(bits, most, &number))
        return false;
    out->bits = (unsigned)number + 128 - most;
    return true;
}

bool serve_client_is_net(const char *text)
{
    struct net net;
    return strcmp(text, "unix") == 0 || parse_net(dgl_str_of(text), true, &net);
}

static bool contains(const struct net *net, const struct net *address)
{
    const unsigned whole = net->bits / 8, rest = net->bits % 8;
    return memcmp(net->bytes, address->bytes, whole) == 0 &&
           (rest == 0 || ((net->bytes[whole] ^ address->bytes[whole]) >> (8 - rest)) == 0);
}

bool serve_client_is_same(const char *a, const char *b)
{
    static const unsigned char local[8]; /* of ::1 and IPv4 */
    struct net one, other;
    if (strcmp(a, b) == 0)
        return true;
    if (!strchr(a, ':') || !strchr(b, ':') || !parse_net(dgl_str_of(a), false, &one) ||
        !parse_net(dgl_str_of(b), false, &other) || memcmp(one.bytes, local, sizeof(local)) == 0)
        return false;
    one.bits = 64;
    return contains(&one, &other);
}

static bool is_trusted(const struct options *opt, struct dgl_str text)
{
    struct net address, net;
    const bool read = parse_net(text, false, &address);
    for (size_t i = 0; i < opt->trust_proxy.count; i++) {
        const char *trusted = opt->trust_proxy.item[i];
        if (dgl_str_eq(text, trusted) ||
            (read && parse_net(dgl_str_of(trusted), true, &net) && contains(&net, &address)))
            return true;
    }
    return false;
}

/* Returns the address of "a.b.c.d", "a.b.c.d:PORT", "[v6]", "[v6]:PORT" or "v6", or empty text. */
static struct dgl_str address_of(struct dgl_str text)
{
    struct net address;
    text = dgl_str_trim(text);
    const char *bracket = text.len ? memchr(text.p, ']', text.len) : NULL;
    const char *colon = text.len ? memchr(text.p, ':', text.len) : NULL;
    if (bracket && text.p[0] == '[')
        text = (struct dgl_str){text.p + 1, (size_t)(bracket - text.p) - 1};
    else if (colon && !memchr(colon + 1, ':', text.len - (size_t)(colon + 1 - text.p)))
        text.len = (size_t)(colon - text.p);
    return parse_net(text, false, &address) ? text : DGL_STR("");
}

struct forwarded {
    struct dgl_buf list; /* values of all X-Forwarded-For, in order, separated by commas */
};

static enum MHD_Result note_forwarded(void *priv, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct forwarded *f = priv;
    (void)kind;
    if (strcasecmp(name, "X-Forwarded-For") == 0 && value)
        dgl_buf_printf(&f->list, "%s%s", f->list.len ? "," : "", value);
    return MHD_YES;
}

/* Each proxy appends the address that it saw. So the list is read from its end, as long as trusted
 * proxies wrote it. */
static void follow_proxies(struct serve_exchange *ex, struct MHD_Connection *connection)
{
    struct forwarded f = {{0}};
    mhd.get_connection_values(connection, MHD_HEADER_KIND, note_forwarded, &f);
    size_t end = f.list.failed ? 0 : f.list.len;
    snprintf(ex->facts.proxy, sizeof(ex->facts.proxy), "%s", ex->client);
    while (end > 0 && is_trusted(ex->server->opt, dgl_str_of(ex->client))) {
        size_t begin = end;
        while (begin > 0 && f.list.p[begin - 1] != ',')
            begin--;
        const struct dgl_str found = address_of((struct dgl_str){f.list.p + begin, end - begin});
        if (found.len == 0)
            break;
        snprintf(ex->client, sizeof(ex->client), "%.*s", (int)found.len, found.p);
        end = begin ? begin - 1 : 0;
    }
    if (strcmp(ex->client, ex->facts.proxy) == 0)
        ex->facts.proxy[0] = '\0';
    dgl_buf_finish(&f.list);
}

void serve_client_address(const struct sockaddr *address, char *out, size_t size)
{
    out[0] = '\0';
    if (address && address->sa_family == AF_UNIX)
        snprintf(out, size, "unix");
    else if (address && getnameinfo(address,
                                    address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                   : sizeof(struct sockaddr_in),
                                    out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

void serve_client_of(struct MHD_Connection *connection, char *out, size_t size)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    serve_client_address(info ? info->client_addr : NULL, out, size);
}

bool serve_client_speaks_for_others(const struct options *opt, const char *client)
{
    return strcmp(client, "unix") == 0 || is_trusted(opt, dgl_str_of(client));
}

void serve_client_name(struct serve_exchange *ex, struct MHD_Connection *connection, bool head)
{
    serve_client_of(connection, ex->client, sizeof(ex->client));
    if (head && is_trusted(ex->server->opt, dgl_str_of(ex->client)))
        follow_proxies(ex, connection);
}

/* ---- ids ------------------------------------------------------------------------------------- */

void serve_client_identify(struct MHD_Connection *connection, char id[SERVE_ID_BYTES])
{
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "-_.:";
    const char *given =
        connection ? mhd.lookup_connection_value(connection, MHD_HEADER_KIND, SERVE_ID_HEADER)
                   : NULL;
    const size_t len = given ? strlen(given) : 0;
    uint64_t unique[2];
    if (len > 0 && len < SERVE_ID_BYTES && strspn(given, allowed) == len) {
        memcpy(id, given, len + 1);
        return;
    }
    if (getrandom(unique, sizeof(unique), 0) != (ssize_t)sizeof(unique))
        unique[0] = unique[1] = dgl_now_ns();
    snprintf(id, SERVE_ID_BYTES, "req-%016llx%016llx", (unsigned long long)unique[0],
             (unsigned long long)unique[1]);
}
