// One error for every question that can go wrong, of one line for people.

export class ApiError extends Error {
  constructor(status, text, retryAfter = 0) {
    super(text);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export const isAborted = (error) => error?.name === "AbortError";
